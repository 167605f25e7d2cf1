// File blocks of 256 weights -> f32 weights, 32 of a row at a time; see block_unpack.hpp.
// Step j of a block covers its weights 32 j to 32 j + 31.
#pragma once

#include "kernels/body/block_unpack.hpp"

namespace orrery::kernels {
namespace {

// (byte >> shift) & mask of 16 bytes
ORRERY_INLINE V::I field(const Byte* p, int shift, int mask) {
  return V::and_i(shift_right(widen_u8(p), shift), V::splat_i(mask));
}

struct WeightQ2K {
  static constexpr DType kType = DType::q2_k;
  static constexpr int kBlock = 256, kBytes = 84;
  static Weights unpack(const Byte* row, int step) {
    const Byte* block = row + kBytes * (step / 8);
    const int j = step % 8;
    const Byte* codes = block + 16 + 32 * (j / 4);
    const float d = half_at(block + 80), dmin = half_at(block + 82);
    const auto half = [&](int i) {
      const Byte pair = block[2 * j + i];
      const float scale = d * static_cast<float>(pair & 15);
      const float min = dmin * static_cast<float>(pair >> 4);
      return scaled(field(codes + 16 * i, 2 * (j % 4), 3), V::splat(scale), V::splat(-min));
    };
    return {half(0), half(1)};
  }
};

struct WeightQ3K {
  static constexpr DType kType = DType::q3_k;
  static constexpr int kBlock = 256, kBytes = 110;
  static Weights unpack(const Byte* row, int step) {
    const Byte* block = row + kBytes * (step / 8);
    const int j = step % 8;
    const Byte* codes = block + 32 + 32 * (j / 4);
    const float d = half_at(block + 108);
    const auto half = [&](int i) {
      const float scale = d * static_cast<float>(scale_of(block + 96, 2 * j + i));
      const V::I low = field(codes + 16 * i, 2 * (j % 4), 3);
      const V::I high = V::shl<2>(field(block + 16 * i, j, 1));
      return scaled(V::or_i(low, high), -4, V::splat(scale));
    };
    return {half(0), half(1)};
  }
  // The 6-bit scale of group g of 16 weights.
  static int scale_of(const Byte* s, int g) {
    const int low = (s[g % 8] >> (4 * (g / 8))) & 15;
    const int high = (s[8 + g % 4] >> (2 * (g / 4))) & 3;
    return (low | high << 4) - 32;
  }
};

// The 6-bit scale and minimum of group g of 32 weights (Q4_K, Q5_K), times d and -dmin.
struct ScaleMin {
  V::F scale, min;
};
ORRERY_INLINE ScaleMin scale_min(const Byte* block, int g) {
  const Byte* s = block + 4;
  int scale = s[g] & 63, min = s[g + 4] & 63;
  if (g >= 4) {
    scale = (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
    min = (s[g + 4] >> 4) | (s[g] >> 6) << 4;
  }
  return {V::splat(half_at(block) * static_cast<float>(scale)),
          V::splat(-(half_at(block + 2) * static_cast<float>(min)))};
}

struct WeightQ4K {
  static constexpr DType kType = DType::q4_k;
  static constexpr int kBlock = 256, kBytes = 144;
  static Weights unpack(const Byte* row, int step) {
    const Byte* block = row + kBytes * (step / 8);
    const int j = step % 8, shift = 4 * (j % 2);
    const ScaleMin pair = scale_min(block, j);
    const Byte* codes = block + 16 + 32 * (j / 2);
    return {scaled(field(codes, shift, 15), pair.scale, pair.min),
            scaled(field(codes + 16, shift, 15), pair.scale, pair.min)};
  }
};

struct WeightQ5K {
  static constexpr DType kType = DType::q5_k;
  static constexpr int kBlock = 256, kBytes = 176;
  static Weights unpack(const Byte* row, int step) {
    const Byte* block = row + kBytes * (step / 8);
    const int j = step % 8, shift = 4 * (j % 2);
    const ScaleMin pair = scale_min(block, j);
    const Byte* codes = block + 48 + 32 * (j / 2);
    const auto half = [&](int i) {
      const V::I high = V::shl<4>(field(block + 16 + 16 * i, j, 1));
      return scaled(V::or_i(field(codes + 16 * i, shift, 15), high), pair.scale, pair.min);
    };
    return {half(0), half(1)};
  }
};

struct WeightQ6K {
  static constexpr DType kType = DType::q6_k;
  static constexpr int kBlock = 256, kBytes = 210;
  static Weights unpack(const Byte* row, int step) {
    const Byte* block = row + kBytes * (step / 8);
    const int n = step % 8 / 4, j = step % 4;
    const Byte* low = block + 64 * n + 32 * (j & 1);
    const Byte* high = block + 128 + 32 * n;
    const float d = half_at(block + 208);
    const auto half = [&](int i) {
      const auto code = static_cast<std::int8_t>(block[192 + 8 * n + 2 * j + i]);
      const V::I four = field(low + 16 * i, j < 2 ? 0 : 4, 15);
      const V::I two = V::shl<4>(field(high + 16 * i, 2 * j, 3));
      return scaled(V::or_i(four, two), -32, V::splat(d * static_cast<float>(code)));
    };
    return {half(0), half(1)};
  }
};

struct WeightIq4Xs {
  static constexpr DType kType = DType::iq4_xs;
  static constexpr int kBlock = 256, kBytes = 136;
  static Weights unpack(const Byte* row, int step) {
    const Byte* block = row + kBytes * (step / 8);
    const int j = step % 8;
    const int low = (block[4 + j / 2] >> (4 * (j % 2))) & 15;
    const int high = (load_u16(block + 2) >> (2 * j)) & 3;
    const float scale = half_at(block) * static_cast<float>((low | high << 4) - 32);
    return looked_up(kNonLinear, block + 8 + 16 * j, scale);
  }
};

}  // namespace
}  // namespace orrery::kernels
