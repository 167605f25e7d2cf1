// The GGUF container, versions 2 and 3 (ggml docs/gguf.md), little-endian:
//   "GGUF" | u32 version | u64 n_tensors | u64 n_kv
//   n_kv x      { u64 length, key | u32 type | value }
//   n_tensors x { u64 length, name | u32 n_dims | u64 dims[n_dims] | u32 type | u64 offset }
//   padding to general.alignment | data
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::storage {

struct GgufFile {
  std::uint32_t version = 0;
  std::uint64_t alignment = 0;
  std::uint64_t data_start = 0;      // byte of tensor offset 0
  std::uint64_t trailing_bytes = 0;  // after the last tensor and its padding
  Metadata metadata;                 // strings are views into the bytes
  std::vector<TensorInfo> tensors;   // in file order; `file` is 0
};

// Reads the header, the metadata and the table of tensors. Nothing that the file says is used
// before it is compared with the bytes really there; values are built only once every check has
// passed, so a bad file costs no more memory than its own pages and a small table.
// `label` names the file in errors.
Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, std::string_view label);

// A tensor in packed layout (tensor/packed.hpp) has the number of its type plus this, which other
// readers refuse as no type that they know.
inline constexpr std::uint32_t kPackedTypes = 0x50000000;
// The key that images have (engine/image.hpp): what is behind their last tensor is theirs.
inline constexpr std::string_view kImageVersionKey = "orrery.image.version";

bool has_gguf_magic(std::span<const std::byte> bytes);

}  // namespace orrery::storage
