// Images: models written anew for this engine to map, page-aligned, in other element types or with
// packed weights (tensor/packed.hpp), kept because somebody asked for them.
//
// An image is a GGUF file with an alignment of 4096. Without packed weights any reader of GGUF
// takes it; a packed tensor has a type that others refuse (storage/gguf.hpp). Keys beside the
// model's own:
//   orrery.image.version   1
//   orrery.image.types     the mix it was written with, "" where every tensor kept its type
//   orrery.image.layout    "file" or "rows16"; the latter is the same for every instruction set
//   orrery.image.source    path of the model it was made of; and of its weight files together:
//   orrery.image.source_bytes, .source_modified (ns since 1970, the newest), .source_hash (XXH3,
//                          hexadecimal)
// Behind the last tensor (u64, little-endian): XXH3 of all in front of the first tensor | that of
// each tensor, in order | that of all these | "ORRIMAGE".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/checkpoint.hpp"
#include "storage/io.hpp"

namespace orrery::engine {

inline constexpr std::uint32_t kImageVersion = 1, kImageAlignment = 4096;

// Which files an image was made of.
struct ImageSource {
  std::string path;  // absolute
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  std::uint64_t hash = 0;  // of all their bytes, and of the texts beside safetensors
};
// Reads every byte. The errors of Io.
Result<ImageSource> identify_source(const storage::Checkpoint& source, storage::Io& io);

// A number for a path, in names of images.
std::uint32_t source_key(std::string_view path);

struct ImageInfo {
  std::string types;  // "" where every tensor kept its type
  bool packed = false;
  ImageSource source;
};
bool is_image(const storage::Checkpoint& file);
// E_IMAGE when it is of another version or layout, or when its head or its end is damaged. Looks
// at no weight.
Result<ImageInfo> read_image(const storage::Checkpoint& image);
// Compares every byte with the checksums: E_CHECKSUM names the tensor. The errors of read_image.
Status verify_image(const storage::Checkpoint& image);
// Whether the model at `source` is what the image was made of: by size and time, and where the time
// alone differs by its bytes. Errors: those of Checkpoint::open.
Result<bool> is_current(const ImageInfo& image, const std::string& source, storage::Io& io);

// XXH3 of a stream of bytes cut into pieces of known sizes, for the end of an image.
class ImageSums {
 public:
  explicit ImageSums(std::vector<std::uint64_t> sizes);
  ~ImageSums();
  ImageSums(const ImageSums&) = delete;
  ImageSums& operator=(const ImageSums&) = delete;
  void add(std::span<const std::byte> bytes);
  // All bytes were added (a CHECK).
  std::vector<std::byte> tail(std::span<const std::byte> head) const;

 private:
  struct State;
  void begin();

  std::unique_ptr<State> state_;
  std::vector<std::uint64_t> sizes_, sums_;
  std::uint64_t left_ = 0;
};

}  // namespace orrery::engine
