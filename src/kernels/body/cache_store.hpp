// Elements of a token into the blocks of a quantized cache (tensor/cache_page.hpp): the bytes are
// those of write_cache_row on every instruction set.
#pragma once

#include "kernels/isa/vec.hpp"
#include "tensor/cache_page.hpp"

namespace orrery::kernels {
namespace {

struct CacheBlock {
  alignas(64) std::uint16_t d[16];  // sixteen times the scale
  alignas(64) std::int8_t codes[kCacheGroup];
};

inline float cache_scale(DType type, V::F a, V::F b) {
  constexpr float kLargestHalf = 65504.0F;
  if (type == DType::q8_0) {
    const float d = V::max_lane(V::max(V::abs(a), V::abs(b))) / 127.0F;
    return d < kLargestHalf ? d : kLargestHalf;
  }
  const float high = V::max_lane(V::max(a, b));
  const float low = V::max_lane(V::max(V::neg(a), V::neg(b)));
  const float e = high >= low ? high : -low;
  if (e == 0.0F) return 0.0F;
  const float d = e / -8.0F;
  return d > kLargestHalf ? kLargestHalf : d < -kLargestHalf ? -kLargestHalf : d;
}

inline void quantize_cache_block(DType type, V::F a, V::F b, CacheBlock& block) {
  const float not_finite = V::sum(V::add(V::mul(a, V::zero()), V::mul(b, V::zero())));
  float d = 0.0F;
  if (not_finite == 0.0F) {
    d = cache_scale(type, a, b);
    V::store_f16(block.d, V::splat(d));
  } else {
    for (std::uint16_t& half : block.d) half = 0x7E00;
  }
  const V::F divisor = V::load_f16(block.d);
  const bool is_q8 = type == DType::q8_0;
  const V::F low = V::splat(is_q8 ? -127.0F : -8.0F), high = V::splat(is_q8 ? 127.0F : 7.0F);
  const bool is_zero = d == 0.0F || (block.d[0] & 0x7FFF) == 0;
  for (int half = 0; half < 2; ++half) {
    const V::F scaled = V::min(V::max(V::div(half == 0 ? a : b, divisor), low), high);
    V::store_i8(block.codes + 16 * half, is_zero ? V::splat_i(0) : V::round_int(scaled));
  }
}

// 32 elements of the token in `slot`, as block `group` of its row.
inline void store_cache_block(DType type, CacheSide side, int dim, int slot, int group, V::F a,
                              V::F b, std::byte* bytes) {
  CacheBlock block;
  quantize_cache_block(type, a, b, block);
  const CacheBlockPlace place = cache_block_place(type, side, dim, group, slot);
  __builtin_memcpy(bytes + place.d, block.d, 2);
  const int n = cache_code_bytes(type);
  if (type == DType::q4_0) {
    for (int i = 0; i < n; ++i) {
      block.codes[i] =
          static_cast<std::int8_t>((block.codes[i] + 8) | (block.codes[i + 16] + 8) << 4);
    }
  }
  std::byte* to = bytes + place.codes;
  if (side == CacheSide::keys) {
    for (int i = 0; i < n; i += 4)
      __builtin_memcpy(to + cache_code_at(side, i), block.codes + i, 4);
  } else {
    for (int i = 0; i < n; ++i) {
      to[cache_code_at(side, i)] = static_cast<std::byte>(block.codes[i]);
    }
  }
}

}  // namespace
}  // namespace orrery::kernels
