#include "engine/packed_weights.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "base/checked.hpp"
#include "base/thread_team.hpp"

namespace orrery::engine {
namespace {

constexpr std::uint64_t kLine = 64;  // alignment of a packed weight
constexpr std::uint64_t kHugePage = 2U << 20;
constexpr std::uint64_t kPieceBytes = kHugePage;  // that a thread copies and lets go of at once
// Of the packed layout and of the order of weights in memory: another one shares nothing.
constexpr std::uint64_t kVersion = 2;
// Of a file, the places that its name is made of.
constexpr std::uint64_t kSamples = 32, kSampleBytes = 4096;

bool is_product(plan::Op op) {
  return op == plan::Op::matmul || op == plan::Op::logits;
}

// Where a weight lies: file by file, so that all processes arrive at one order.
struct Place {
  std::uint64_t file, offset;
  auto operator<=>(const Place&) const = default;
};

std::optional<Place> place_of(const storage::Checkpoint& files, const std::byte* data) {
  for (std::size_t i = 0; i < files.mappings().size(); ++i) {
    const std::span<const std::byte> bytes = files.mappings()[i]->bytes();
    if (data < bytes.data() || data >= bytes.data() + bytes.size()) continue;
    return Place{i, static_cast<std::uint64_t>(data - bytes.data())};
  }
  return std::nullopt;
}

// Reading a byte may map the whole huge page around it: what lies before the part goes too. A
// thread that still reads there gets it back.
void release_part(const storage::Checkpoint& files, std::span<const std::byte> part) {
  const std::byte* begin = part.data();
  begin -= reinterpret_cast<std::uintptr_t>(begin) % kHugePage;
  files.release({begin, part.data() + part.size()});
}

// What tells a file and its versions apart: size, time of writing, and the bytes in some places, as
// a file may be replaced between the look at its name and that at its bytes. False for what is no
// file of the system's.
bool add_identity(const std::string& path, std::span<const std::byte> bytes,
                  std::vector<std::uint64_t>& words) {
  const Result<storage::FileInfo> info = storage::system_io().info(path);
  if (!info || info->size != bytes.size()) return false;
  words.insert(words.end(), {info->size, static_cast<std::uint64_t>(info->modified_ns)});
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::uint64_t at = bytes.size() / kSamples * i;
    const auto sample = bytes.subspan(at, std::min(kSampleBytes, bytes.size() - at));
    words.push_back(XXH3_64bits(sample.data(), sample.size()));
  }
  return true;
}

}  // namespace

// Pieces in the order of the file, whoever takes the next.
struct PackedWeights::Copying {
  struct Piece {
    const Item* item;
    std::uint64_t begin, end;  // bytes
  };
  const storage::Checkpoint& files;
  std::byte* target;
  std::vector<Piece> pieces = {};
  std::atomic<std::size_t> next{0};

  void run() {
    for (std::size_t i = next++; i < pieces.size(); i = next++) {
      const auto& [item, begin, end] = pieces[i];
      for (std::uint64_t at = begin; at < end; at += item->unit_bytes()) {
        item->copy_unit(at, target + item->offset + at);
      }
      release_part(files, {item->source + begin, end - begin});
    }
  }
};

void PackedWeights::Item::copy_unit(std::uint64_t at, std::byte* to) const {
  if (packed) {
    pack_panel(weight.dtype, weight.cols, source + at, to);
  } else {
    std::memcpy(to, source + at, unit_bytes());
  }
}

bool PackedWeights::holds(std::span<const std::byte> part) const {
  const auto item = items_.upper_bound({part.data(), UINT32_MAX});
  if (item == items_.begin()) return false;
  const Item& before = std::prev(item)->second;
  return part.data() < before.source + before.bytes();
}

void PackedWeights::choose(const BoundPlan& bound) {
  bool any_packed = false;
  for (const plan::Step& step : bound.plan.steps) {
    if (!is_product(step.op)) continue;
    for (const plan::WeightId id : step.w) {
      if (id == plan::kNone) continue;
      const plan::Weight& weight = bound.plan.weights[static_cast<std::size_t>(id)];
      const std::byte* source = bound.weights[static_cast<std::size_t>(id)];
      if (weight.layout == Layout::packed) continue;  // an image's
      const bool packed = is_packable(weight.dtype, weight.rows, weight.cols);
      any_packed = any_packed || packed;
      items_.try_emplace({source, weight.rows},
                         Item{.weight = weight, .source = source, .packed = packed});
    }
  }
  if (!any_packed) items_.clear();  // to copy alone gains nothing
}

// Gives every item its place, and the whole a name that says what is in it: which files, which of
// their weights, in which order. What is not of files that can be told apart has none.
Status PackedWeights::map(const storage::Checkpoint& files) {
  std::vector<std::pair<Place, Item*>> order;
  std::vector<std::uint64_t> words = {kVersion};
  bool has_name = !items_.empty();
  for (std::size_t i = 0; i < files.mappings().size(); ++i) {
    has_name = add_identity(files.files()[i], files.mappings()[i]->bytes(), words) && has_name;
  }
  for (auto& [key, item] : items_) {
    const std::optional<Place> place = place_of(files, item.source);
    has_name = has_name && place;
    order.emplace_back(place.value_or(Place{files.mappings().size(), order.size()}), &item);
  }
  std::ranges::sort(order, {}, [](const auto& entry) {
    return std::pair(entry.first, entry.second->weight.rows);
  });
  std::uint64_t total = 0;
  for (const auto& [place, item] : order) {
    const plan::Weight& weight = item->weight;
    words.insert(words.end(), {place.file, place.offset, weight.rows, weight.cols,
                               static_cast<std::uint64_t>(weight.dtype)});
    item->offset = total;
    total += align_up(item->bytes(), kLine);
  }
  const XXH128_hash_t hash = XXH3_128bits(words.data(), words.size() * sizeof words[0]);
  const std::string name = fmt::format("packed-{:016x}{:016x}", hash.high64, hash.low64);
  ORRERY_TRY(memory_, memory::SharedSurface::open(has_name ? name : "", total));
  return {};
}

Status PackedWeights::fill(const storage::Checkpoint& files, int threads, bool must_seal) {
  if (memory_ == nullptr) return {};
  release(files);  // a run before may have mapped all of them, and the new memory comes as a whole
  const Status ready = memory_->ready(
      [&]() -> Status {
        copy(files, threads);
        return files.check_files(true);  // or others would get what is not in the file
      },
      [this] { return is_right(); }, must_seal);
  release(files);
  return ready;
}

// Whether what somebody else has packed is what this model would: the beginnings of a few weights.
bool PackedWeights::is_right() const {
  std::vector<std::byte> unit;
  const std::size_t stride = std::max<std::size_t>(1, items_.size() / 4);
  std::size_t number = 0;
  for (const auto& [key, item] : items_) {
    if (number++ % stride != 0) continue;
    unit.resize(item.unit_bytes());
    item.copy_unit(0, unit.data());
    if (std::memcmp(unit.data(), target(item), unit.size()) != 0) return false;
  }
  return true;
}

void PackedWeights::copy(const storage::Checkpoint& files, int threads) {
  Copying copying{.files = files, .target = memory_->data()};
  for (const auto& [key, item] : items_) {
    const std::uint64_t unit = item.unit_bytes();
    const std::uint64_t at_once = std::max<std::uint64_t>(1, kPieceBytes / unit) * unit;
    for (std::uint64_t begin = 0; begin < item.bytes(); begin += at_once) {
      copying.pieces.push_back({&item, begin, std::min(begin + at_once, item.bytes())});
    }
  }
  ThreadTeam team(threads);
  team.run([](void* context, int) { static_cast<Copying*>(context)->run(); }, &copying);
}

void PackedWeights::release(const storage::Checkpoint& files) const {
  for (const auto& [key, item] : items_) release_part(files, {item.source, item.bytes()});
}

Result<BoundPlan> PackedWeights::bind(BoundPlan bound, const storage::Checkpoint& files) {
  if (items_.empty() && memory_ == nullptr) {
    choose(bound);
    ORRERY_TRY_VOID(map(files));
  }
  for (std::size_t i = 0; i < bound.plan.weights.size(); ++i) {
    plan::Weight& weight = bound.plan.weights[i];
    const auto item = items_.find({bound.weights[i], weight.rows});
    if (item == items_.end()) continue;
    bound.weights[i] = target(item->second);
    if (item->second.packed) weight.layout = Layout::packed;
  }
  return bound;
}

}  // namespace orrery::engine
