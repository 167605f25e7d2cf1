// The bytes of cached keys and values: what a page of 64 tokens holds for one head.
//
// A head of a page is its keys, then its values; each side takes 64 times row_bytes(type, dim).
// f32, f16 and bf16 are rows, token after token. Q8_0 and Q4_0 have the blocks of those types, 32
// elements of a token with one scale, arranged for those who read many tokens of one head:
//
//   keys    four panels of sixteen tokens, each a packed panel (tensor/packed.hpp): a lane is a
//           token, so that scores are made like any product of class i8
//   values  for each 32 elements: f16 d[64] | codes, u8[32 pairs of tokens][n][2]
//           with n = 32 (Q8_0) or 16 (Q4_0, elements i and i + 16 in the low and high nibble of
//           byte i), so that sums over tokens read one stream and take two tokens at a time
//
// No byte holds two tokens, so several threads may write tokens of a page.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.hpp"
#include "tensor/packed.hpp"

namespace orrery {

inline constexpr int kCachePageTokens = 64;
inline constexpr int kCacheGroup = 32;  // elements that share a scale in the quantized types

enum class CacheSide : std::uint8_t { keys, values };

constexpr bool is_quantized_cache(DType type) {
  return type == DType::q8_0 || type == DType::q4_0;
}
constexpr bool is_cache_type(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16 ||
         is_quantized_cache(type);
}

// Of a quantized type: bytes of the codes of a block, and of the block with its scale.
constexpr int cache_code_bytes(DType type) {
  return type == DType::q8_0 ? 32 : 16;
}
constexpr int cache_block_bytes(DType type) {
  return cache_code_bytes(type) + 2;
}

// Where a block lies in its side: its scale, and its first byte of codes; byte i is cache_code_at
// behind that.
struct CacheBlockPlace {
  std::size_t d, codes;
};
constexpr std::size_t cache_code_at(CacheSide side, int i) {
  return static_cast<std::size_t>(side == CacheSide::keys ? i / 4 * 64 + i % 4 : 2 * i);
}
constexpr CacheBlockPlace cache_block_place(DType type, CacheSide side, int dim, int group,
                                            int slot) {
  const int groups = dim / kCacheGroup, n = cache_code_bytes(type);
  if (side == CacheSide::values) {
    const int at = group * kCachePageTokens * cache_block_bytes(type);
    const int codes = at + 2 * kCachePageTokens + slot / 2 * 2 * n + slot % 2;
    return {static_cast<std::size_t>(at + 2 * slot), static_cast<std::size_t>(codes)};
  }
  const PackedRecord record = packed_record(type);
  const int row = slot % kPackedRows;
  const int at = (slot / kPackedRows * groups + packed_position(group, groups)) * record.bytes;
  return {static_cast<std::size_t>(at + 2 * row),
          static_cast<std::size_t>(at + record.codes + 4 * row)};
}

// The row of a token in a side of f32, f16 or bf16, or a block in one of the quantized types, as
// numbers. `slot` is the token's place in the page (0 to 63); `dim` is a multiple of the type's
// block_len, `type` a cache type (CHECKs).
//
// A block of x[32]: of Q8_0, d = max |x| / 127 and codes x / d; of Q4_0, d = e / -8 with e the
// element of the largest magnitude (the positive one of two), and codes x / d + 8. d is rounded to
// f16 (at most 65504) before the codes are made, codes to the nearest (ties to even) and into the
// type's range. A block with an element that is not finite has the scale NaN.
void write_cache_row(DType type, CacheSide side, int dim, int slot, const float* x,
                     std::byte* bytes);
void read_cache_row(DType type, CacheSide side, int dim, int slot, const std::byte* bytes,
                    float* x);

}  // namespace orrery
