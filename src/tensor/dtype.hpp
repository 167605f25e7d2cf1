// Element types as files carry them. Block layouts: tensor/blocks.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery {

// The values are the type ids of GGUF (ggml), so a file's number is the enumerator.
enum class DType : std::uint8_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  bf16 = 30,
  mxfp4 = 39,
  nvfp4 = 40,
};

struct DTypeInfo {
  std::string_view name;      // as GGUF tools print it: "Q4_K"
  std::uint32_t block_len;    // elements per block; 1 for plain types
  std::uint32_t block_bytes;  // bytes per block
  bool is_quantized;          // block formats with scales
  std::uint32_t scale_group;  // weights that share a scale (16, 32); 1 for plain types
};

// The description of a type; a CHECK fails for a value that is no enumerator.
const DTypeInfo& dtype_info(DType type);

// The type with this ggml id, or nothing for an id that is unknown or removed (4, 5, ...).
std::optional<DType> dtype_from_id(std::uint32_t id);

// Bytes of one row of n elements; n must be a multiple of block_len.
std::uint64_t row_bytes(DType type, std::uint64_t n);

}  // namespace orrery
