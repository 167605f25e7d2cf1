#include "engine/packed_weights.hpp"

#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "base/checked.hpp"
#include "base/thread_team.hpp"

namespace orrery::engine {
namespace {

constexpr std::uint64_t kLine = 64;  // alignment of a packed weight
constexpr std::uint64_t kHugePage = 2U << 20;
constexpr std::uint64_t kPieceBytes = kHugePage;  // that a thread copies and lets go of at once

bool is_product(plan::Op op) {
  return op == plan::Op::matmul || op == plan::Op::logits;
}

}  // namespace

// Pieces in the order of the file, whoever takes the next.
struct PackedWeights::Copying {
  struct Piece {
    const Item* item;
    std::uint64_t first, panels;
  };
  const storage::Checkpoint& files;
  std::vector<Piece> pieces = {};
  std::atomic<std::size_t> next{0};

  void run() {
    for (std::size_t i = next++; i < pieces.size(); i = next++) {
      const auto& [item, first, panels] = pieces[i];
      const std::uint64_t bytes = item->panel_bytes();
      for (std::uint64_t at = first * bytes; at < (first + panels) * bytes; at += bytes) {
        pack_panel(item->weight.dtype, item->weight.cols, item->source + at, item->target + at);
      }
      release(item->source + first * bytes, item->source + (first + panels) * bytes);
    }
  }

  // Reading a byte may map the whole huge page around it: what lies before the piece goes too. A
  // thread that still reads there gets it back.
  void release(const std::byte* begin, const std::byte* end) const {
    begin -= reinterpret_cast<std::uintptr_t>(begin) % kHugePage;
    files.release({begin, end});
  }
};

bool PackedWeights::holds(std::span<const std::byte> part) const {
  const auto item = items_.upper_bound({part.data(), UINT32_MAX});
  if (item == items_.begin()) return false;
  const Item& before = std::prev(item)->second;
  return part.data() < before.source + before.bytes();
}

std::uint64_t PackedWeights::choose(const BoundPlan& bound) {
  std::uint64_t total = 0;
  for (const plan::Step& step : bound.plan.steps) {
    if (!is_product(step.op)) continue;
    for (const plan::WeightId id : step.w) {
      if (id == plan::kNone) continue;
      const plan::Weight& weight = bound.plan.weights[static_cast<std::size_t>(id)];
      const std::byte* source = bound.weights[static_cast<std::size_t>(id)];
      if (weight.layout == Layout::packed) continue;  // an image's
      if (!is_packable(weight.dtype, weight.rows, weight.cols)) continue;
      const auto [item, is_new] = items_.try_emplace({source, weight.rows}, Item{weight, source});
      if (is_new) total += align_up(item->second.bytes(), kLine);
    }
  }
  return total;
}

void PackedWeights::fill(const storage::Checkpoint& files, int threads) {
  Copying copying{.files = files};
  for (const auto& [key, item] : items_) {
    const std::uint64_t at_once = std::max<std::uint64_t>(1, kPieceBytes / item.panel_bytes());
    const std::uint64_t panels = item.weight.rows / kPackedRows;
    for (std::uint64_t first = 0; first < panels; first += at_once) {
      copying.pieces.push_back({&item, first, std::min(at_once, panels - first)});
    }
  }
  ThreadTeam team(threads);
  team.run([](void* context, int) { static_cast<Copying*>(context)->run(); }, &copying);
  release(files);
}

void PackedWeights::release(const storage::Checkpoint& files) const {
  for (const auto& [key, item] : items_) files.release({item.source, item.bytes()});
}

Result<BoundPlan> PackedWeights::bind(BoundPlan bound) {
  if (items_.empty()) {
    ORRERY_TRY(region_, memory::Region::map(choose(bound)));
    std::byte* target = region_.data();
    for (auto& [key, item] : items_) {
      item.target = target;
      target += align_up(item.bytes(), kLine);
    }
  }
  for (std::size_t i = 0; i < bound.plan.weights.size(); ++i) {
    plan::Weight& weight = bound.plan.weights[i];
    const auto item = items_.find({bound.weights[i], weight.rows});
    if (item == items_.end()) continue;
    bound.weights[i] = item->second.target;
    weight.layout = Layout::packed;
  }
  return bound;
}

}  // namespace orrery::engine
