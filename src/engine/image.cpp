#include "engine/image.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.hpp"
#include "storage/gguf.hpp"

namespace orrery::engine {
namespace {

constexpr std::string_view kMark = "ORRIMAGE";
constexpr std::uint64_t kPiece = std::uint64_t{8} << 20;  // hashed between two releases

struct Freed {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};
using Hash = std::unique_ptr<XXH3_state_t, Freed>;

Hash new_hash() {
  Hash hash(XXH3_createState());
  ORRERY_CHECK(hash != nullptr);
  XXH3_64bits_reset(hash.get());
  return hash;
}

void hash_text(XXH3_state_t& hash, std::string_view text) {
  const std::uint64_t size = text.size();
  XXH3_64bits_update(&hash, &size, sizeof size);
  XXH3_64bits_update(&hash, text.data(), text.size());
}

// Lets go of the pages behind it.
void hash_file(XXH3_state_t& hash, const storage::MappedFile& file) {
  std::span<const std::byte> bytes = file.bytes();
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), kPiece));
    XXH3_64bits_update(&hash, part.data(), part.size());
    file.release(part);
    bytes = bytes.subspan(part.size());
  }
}

std::uint64_t hash_source(const storage::Checkpoint& source) {
  const Hash hash = new_hash();
  for (const auto& file : source.mappings()) hash_file(*hash, *file);
  for (const std::string_view text :
       {source.config_json(), source.tokenizer_json(), source.tokenizer_config_json(),
        source.generation_config_json(), source.chat_template_jinja(),
        source.sentence_config_json()}) {
    hash_text(*hash, text);
  }
  return XXH3_64bits_digest(hash.get());
}

// All but the hash.
Result<ImageSource> look_at(const storage::Checkpoint& source, storage::Io& io) {
  ImageSource seen;
  std::error_code error;
  const auto absolute = std::filesystem::weakly_canonical(source.path(), error);
  seen.path = error ? source.path() : absolute.string();
  for (const std::string& file : source.files()) {
    ORRERY_TRY(const storage::FileInfo info, io.info(file));
    seen.bytes += info.size;
    seen.modified_ns = std::max(seen.modified_ns, info.modified_ns);
  }
  return seen;
}

std::unexpected<Error> refuse(const storage::Checkpoint& image, const std::string& why) {
  return fail("E_IMAGE", fmt::format("{}: the image {}; remove it with `orrery models remove` and "
                                     "make it again with `orrery pack`",
                                     image.label(), why));
}

Result<ImageInfo> read_keys(const storage::Checkpoint& image) {
  const storage::Metadata& keys = image.metadata();
  ImageInfo info;
  ORRERY_TRY(const std::uint32_t version, keys.u32(storage::kImageVersionKey));
  if (version != kImageVersion) {
    return refuse(image, fmt::format("is of version {} and not {}", version, kImageVersion));
  }
  ORRERY_TRY(const std::string_view types, keys.string("orrery.image.types"));
  ORRERY_TRY(const std::string_view layout, keys.string("orrery.image.layout"));
  ORRERY_TRY(const std::string_view path, keys.string("orrery.image.source"));
  ORRERY_TRY(const std::int64_t bytes, keys.i64("orrery.image.source_bytes"));
  ORRERY_TRY(info.source.modified_ns, keys.i64("orrery.image.source_modified"));
  ORRERY_TRY(const std::string_view hash, keys.string("orrery.image.source_hash"));
  if (layout != "file" && layout != "rows16") {
    return refuse(image, fmt::format("has the layout {}, which this program does not read",
                                     layout.substr(0, 32)));
  }
  info.types = types;
  info.packed = layout == "rows16";
  info.source.path = path;
  info.source.bytes = static_cast<std::uint64_t>(bytes);
  info.source.hash = std::strtoull(std::string(hash).c_str(), nullptr, 16);
  return info;
}

// The numbers behind the last tensor; empty where they are not whole.
std::vector<std::uint64_t> read_tail(const storage::Checkpoint& image) {
  if (image.mappings().size() != 1 || image.tensors().empty()) return {};
  const std::span<const std::byte> file = image.mappings()[0]->bytes();
  const storage::TensorInfo& last = image.tensors().back();
  std::vector<std::uint64_t> numbers(image.tensors().size() + 2);
  const std::uint64_t size = numbers.size() * sizeof numbers[0] + kMark.size();
  if (file.size() < last.offset + last.bytes + size) return {};
  const std::span<const std::byte> tail = file.last(size);
  std::memcpy(numbers.data(), tail.data(), size - kMark.size());
  if (std::memcmp(tail.data() + size - kMark.size(), kMark.data(), kMark.size()) != 0) return {};
  const std::uint64_t hash = XXH3_64bits(numbers.data(), (numbers.size() - 1) * sizeof numbers[0]);
  return hash == numbers.back() ? numbers : std::vector<std::uint64_t>{};
}

}  // namespace

struct ImageSums::State {
  Hash hash = new_hash();
};

ImageSums::ImageSums(std::vector<std::uint64_t> sizes)
    : state_(std::make_unique<State>()), sizes_(std::move(sizes)) {
  begin();
}
ImageSums::~ImageSums() = default;

// The next piece that has bytes.
void ImageSums::begin() {
  XXH3_64bits_reset(state_->hash.get());
  while (sums_.size() < sizes_.size() && sizes_[sums_.size()] == 0) {
    sums_.push_back(XXH3_64bits(nullptr, 0));
  }
  left_ = sums_.size() < sizes_.size() ? sizes_[sums_.size()] : 0;
}

void ImageSums::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ORRERY_CHECK(left_ > 0);
    const auto part = bytes.first(std::min<std::uint64_t>(left_, bytes.size()));
    XXH3_64bits_update(state_->hash.get(), part.data(), part.size());
    bytes = bytes.subspan(part.size());
    left_ -= part.size();
    if (left_ > 0) continue;
    sums_.push_back(XXH3_64bits_digest(state_->hash.get()));
    begin();
  }
}

std::vector<std::byte> ImageSums::tail(std::span<const std::byte> head) const {
  ORRERY_CHECK(sums_.size() == sizes_.size());
  std::vector<std::uint64_t> numbers{XXH3_64bits(head.data(), head.size())};
  numbers.insert(numbers.end(), sums_.begin(), sums_.end());
  numbers.push_back(XXH3_64bits(numbers.data(), numbers.size() * sizeof numbers[0]));
  const auto bytes = std::as_bytes(std::span(numbers));
  std::vector<std::byte> tail(bytes.begin(), bytes.end());
  const auto mark = std::as_bytes(std::span(kMark));
  tail.insert(tail.end(), mark.begin(), mark.end());
  return tail;
}

Result<ImageSource> identify_source(const storage::Checkpoint& source, storage::Io& io) {
  ORRERY_TRY(ImageSource seen, look_at(source, io));
  seen.hash = hash_source(source);
  return seen;
}

std::uint32_t source_key(std::string_view path) {
  return static_cast<std::uint32_t>(XXH3_64bits(path.data(), path.size()));
}

bool is_image(const storage::Checkpoint& file) {
  return file.metadata().has(storage::kImageVersionKey);
}

Result<ImageInfo> read_image(const storage::Checkpoint& image) {
  auto info = read_keys(image);
  if (!info) return fail_in(image.label(), info.error());
  const std::vector<std::uint64_t> sums = read_tail(image);
  if (sums.empty()) return refuse(image, "is cut short or damaged at its end");
  const std::span<const std::byte> file = image.mappings()[0]->bytes();
  if (XXH3_64bits(file.data(), image.tensors()[0].offset) != sums[0]) {
    return refuse(image, "is damaged in front of its weights");
  }
  return info;
}

Status verify_image(const storage::Checkpoint& image) {
  ORRERY_TRY_VOID(read_image(image));
  const std::vector<std::uint64_t> sums = read_tail(image);
  for (std::size_t i = 0; i < image.tensors().size(); ++i) {
    const storage::TensorInfo& tensor = image.tensors()[i];
    const std::uint64_t sum = XXH3_64bits(tensor.data, tensor.bytes);
    image.release({tensor.data, tensor.bytes});
    if (sum == sums[i + 1]) continue;
    return fail("E_CHECKSUM", fmt::format("{}: the image's tensor {} is damaged; remove the image "
                                          "and make it again with `orrery pack`",
                                          image.label(), tensor.name));
  }
  return image.check_files(true);
}

Result<bool> is_current(const ImageInfo& image, const std::string& source, storage::Io& io) {
  const auto is_same = [&](std::uint64_t bytes, std::int64_t modified_ns) {
    return bytes == image.source.bytes && modified_ns == image.source.modified_ns;
  };
  // Most sources are one file, whose table need not be read.
  ORRERY_TRY(const storage::FileInfo file, io.info(source));
  if (is_same(file.size, file.modified_ns)) return true;
  ORRERY_TRY(const auto checkpoint, storage::Checkpoint::open(source, io));
  ORRERY_TRY(const ImageSource seen, look_at(*checkpoint, io));
  if (is_same(seen.bytes, seen.modified_ns)) return true;
  return seen.bytes == image.source.bytes && hash_source(*checkpoint) == image.source.hash;
}

}  // namespace orrery::engine
