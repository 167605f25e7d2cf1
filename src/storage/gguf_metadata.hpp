// The key/value part of a GGUF file: scanned and checked first, decoded later.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/byte_reader.hpp"
#include "storage/metadata.hpp"

namespace orrery::storage {

// Type ids as the file carries them.
enum class GgufType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

// One checked pair: where its value is and how to read it.
struct GgufPair {
  std::string_view key;
  GgufType type;  // of the value, or of the elements of an array
  bool is_array;
  std::uint64_t count;  // elements of an array; 1 otherwise
  std::uint64_t value;  // byte of the value, or of the first element
};

// Reads and checks `n` pairs; keys are unique.
Result<std::vector<GgufPair>> scan_gguf_pairs(ByteReader& reader, std::uint64_t n);

// general.alignment, or the default when absent.
Result<std::uint64_t> gguf_alignment(const ByteReader& reader, std::span<const GgufPair> pairs);

// Decodes pairs that scan_gguf_pairs gave for the same bytes.
Metadata decode_gguf_pairs(std::span<const std::byte> bytes, std::span<const GgufPair> pairs);

}  // namespace orrery::storage
