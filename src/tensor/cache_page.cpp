#include "tensor/cache_page.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.hpp"
#include "tensor/decode.hpp"
#include "tensor/half.hpp"

namespace orrery {
namespace {

constexpr float kLargestHalf = 65504.0F;

struct Block {
  std::uint16_t d;
  std::int8_t codes[kCacheGroup];  // the zero point taken off
};

// The scale of a block before it is rounded.
float exact_scale(DType type, const float* x) {
  const auto [low, high] = std::minmax_element(x, x + kCacheGroup);
  if (type == DType::q8_0) return std::max(std::abs(*low), std::abs(*high)) / 127.0F;
  const float e = *high >= -*low ? *high : *low;
  return e == 0.0F ? 0.0F : e / -8.0F;
}

Block quantize(DType type, const float* x) {
  Block block{};
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (!std::all_of(x, x + kCacheGroup, is_finite)) {
    block.d = f32_to_f16(std::numeric_limits<float>::quiet_NaN());
    return block;
  }
  block.d = f32_to_f16(std::clamp(exact_scale(type, x), -kLargestHalf, kLargestHalf));
  const float d = f16_to_f32(block.d);
  const float lowest = type == DType::q8_0 ? -127.0F : -8.0F;
  const float highest = type == DType::q8_0 ? 127.0F : 7.0F;
  for (int i = 0; i < kCacheGroup && d != 0.0F; ++i) {
    block.codes[i] =
        static_cast<std::int8_t>(std::nearbyint(std::clamp(x[i] / d, lowest, highest)));
  }
  return block;
}

void write_block(DType type, CacheSide side, const CacheBlockPlace& place, const Block& block,
                 std::byte* bytes) {
  std::memcpy(bytes + place.d, &block.d, 2);
  for (int i = 0; i < cache_code_bytes(type); ++i) {
    int code = block.codes[i];
    if (type == DType::q4_0) code = (code + 8) | (block.codes[i + 16] + 8) << 4;
    bytes[place.codes + cache_code_at(side, i)] = static_cast<std::byte>(code);
  }
}

void read_block(DType type, CacheSide side, const CacheBlockPlace& place, const std::byte* bytes,
                float* x) {
  std::byte block[cache_block_bytes(DType::q8_0)];
  std::memcpy(block, bytes + place.d, 2);
  for (int i = 0; i < cache_code_bytes(type); ++i) {
    block[2 + i] = bytes[place.codes + cache_code_at(side, i)];
  }
  decode_row(type, block, x, kCacheGroup);
}

void write_plain(DType type, const float* x, int dim, std::byte* row) {
  for (int i = 0; i < dim; ++i) {
    const std::uint16_t half = type == DType::bf16 ? f32_to_bf16(x[i]) : f32_to_f16(x[i]);
    if (type == DType::f32) {
      std::memcpy(row + 4 * i, x + i, 4);
    } else {
      std::memcpy(row + 2 * i, &half, 2);
    }
  }
}

std::size_t plain_row(DType type, int dim, int slot) {
  return row_bytes(type, static_cast<std::uint64_t>(dim)) * static_cast<std::size_t>(slot);
}

}  // namespace

void write_cache_row(DType type, CacheSide side, int dim, int slot, const float* x,
                     std::byte* bytes) {
  ORRERY_CHECK(is_cache_type(type) && slot >= 0 && slot < kCachePageTokens);
  if (!is_quantized_cache(type))
    return write_plain(type, x, dim, bytes + plain_row(type, dim, slot));
  ORRERY_CHECK(dim % kCacheGroup == 0);
  for (int group = 0; group < dim / kCacheGroup; ++group) {
    write_block(type, side, cache_block_place(type, side, dim, group, slot),
                quantize(type, x + kCacheGroup * group), bytes);
  }
}

void read_cache_row(DType type, CacheSide side, int dim, int slot, const std::byte* bytes,
                    float* x) {
  ORRERY_CHECK(is_cache_type(type) && slot >= 0 && slot < kCachePageTokens);
  if (!is_quantized_cache(type)) {
    return decode_row(type, bytes + plain_row(type, dim, slot), x, static_cast<std::uint64_t>(dim));
  }
  ORRERY_CHECK(dim % kCacheGroup == 0);
  for (int group = 0; group < dim / kCacheGroup; ++group) {
    read_block(type, side, cache_block_place(type, side, dim, group, slot), bytes,
               x + kCacheGroup * group);
  }
}

}  // namespace orrery
