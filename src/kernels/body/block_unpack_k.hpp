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

// Factors of up to 16 groups: weight = scale * code + min.
struct GroupScales {
  float scale[16];
};
struct GroupScalesMins {
  float scale[16], min[16];
};

struct WeightQ2K {
  static constexpr DType kType = DType::q2_k;
  static constexpr int kSteps = 8, kBytes = 84, kElement = 0;
  using Shared = GroupScalesMins;

  static Shared open(const Byte* block) {
    const Lanes2 pairs = nibbles(block);
    const V::F d = V::splat(half_at(block + 80)), dmin = V::splat(half_at(block + 82));
    Shared s;
    V::store(s.scale, V::mul(d, V::to_float(pairs.low)));
    V::store(s.min, V::neg(V::mul(dmin, V::to_float(pairs.high))));
    return s;
  }
  static Weights unpack(const Byte* block, const Shared& s, int j) {
    const Byte* codes = block + 16 + 32 * (j / 4);
    const auto half = [&](int i) {
      const int g = 2 * j + i;
      return scaled(field(codes + 16 * i, 2 * (j % 4), 3), V::splat(s.scale[g]),
                    V::splat(s.min[g]));
    };
    return {half(0), half(1)};
  }
};

struct WeightQ3K {
  static constexpr DType kType = DType::q3_k;
  static constexpr int kSteps = 8, kBytes = 110, kElement = 0;
  using Shared = GroupScales;

  // 16 scales of 6 bits: the low four are nibbles of 8 bytes, the high two fields of 4 bytes.
  static Shared open(const Byte* block) {
    const std::uint32_t low[2] = {load_u32(block + 96), load_u32(block + 100)};
    const std::uint32_t high = load_u32(block + 104);
    std::uint32_t packed[4];
    for (int i = 0; i < 4; ++i) {
      packed[i] = (low[i % 2] >> (4 * (i / 2)) & 0x0F0F0F0FU) | (high >> (2 * i) & 0x03030303U)
                                                                    << 4;
    }
    Shared s;
    Byte bytes[16];
    __builtin_memcpy(bytes, packed, 16);
    const V::F codes = V::to_float(V::sub_i(widen_u8(bytes), V::splat_i(32)));
    V::store(s.scale, V::mul(V::splat(half_at(block + 108)), codes));
    return s;
  }
  static Weights unpack(const Byte* block, const Shared& s, int j) {
    const Byte* codes = block + 32 + 32 * (j / 4);
    const auto half = [&](int i) {
      const V::I low = field(codes + 16 * i, 2 * (j % 4), 3);
      const V::I high = V::shl<2>(field(block + 16 * i, j, 1));
      return scaled(V::or_i(low, high), -4, V::splat(s.scale[2 * j + i]));
    };
    return {half(0), half(1)};
  }
};

// The 6-bit scales and minima of 8 groups of 32 weights (Q4_K, Q5_K): scale[0..7] = d * sc,
// scale[8..15] = -dmin * mn.
ORRERY_INLINE GroupScales open_six_bits(const Byte* block) {
  const std::uint32_t a = load_u32(block + 4), b = load_u32(block + 8), c = load_u32(block + 12);
  const std::uint32_t packed[4] = {a & 0x3F3F3F3FU, (c & 0x0F0F0F0FU) | (a >> 6 & 0x03030303U) << 4,
                                   b & 0x3F3F3F3FU,
                                   (c >> 4 & 0x0F0F0F0FU) | (b >> 6 & 0x03030303U) << 4};
  Byte bytes[16];
  __builtin_memcpy(bytes, packed, 16);
  const V::F factor = V::first(8, V::splat(half_at(block)), V::splat(-half_at(block + 2)));
  GroupScales s;
  V::store(s.scale, V::mul(factor, V::to_float(widen_u8(bytes))));
  return s;
}

struct WeightQ4K {
  static constexpr DType kType = DType::q4_k;
  static constexpr int kSteps = 8, kBytes = 144, kElement = 0;
  using Shared = GroupScales;

  static Shared open(const Byte* block) { return open_six_bits(block); }
  static Weights unpack(const Byte* block, const Shared& s, int j) {
    const Byte* codes = block + 16 + 32 * (j / 2);
    const V::F scale = V::splat(s.scale[j]), min = V::splat(s.scale[8 + j]);
    return {scaled(field(codes, 4 * (j % 2), 15), scale, min),
            scaled(field(codes + 16, 4 * (j % 2), 15), scale, min)};
  }
};

struct WeightQ5K {
  static constexpr DType kType = DType::q5_k;
  static constexpr int kSteps = 8, kBytes = 176, kElement = 0;
  using Shared = GroupScales;

  static Shared open(const Byte* block) { return open_six_bits(block); }
  static Weights unpack(const Byte* block, const Shared& s, int j) {
    const Byte* codes = block + 48 + 32 * (j / 2);
    const V::F scale = V::splat(s.scale[j]), min = V::splat(s.scale[8 + j]);
    const auto half = [&](int i) {
      const V::I high = V::shl<4>(field(block + 16 + 16 * i, j, 1));
      return scaled(V::or_i(field(codes + 16 * i, 4 * (j % 2), 15), high), scale, min);
    };
    return {half(0), half(1)};
  }
};

struct WeightQ6K {
  static constexpr DType kType = DType::q6_k;
  static constexpr int kSteps = 8, kBytes = 210, kElement = 0;
  using Shared = GroupScales;

  static Shared open(const Byte* block) {
    Shared s;
    V::store(s.scale, V::mul(V::splat(half_at(block + 208)), V::to_float(widen_i8(block + 192))));
    return s;
  }
  static Weights unpack(const Byte* block, const Shared& s, int step) {
    const int n = step / 4, j = step % 4;
    const Byte* low = block + 64 * n + 32 * (j & 1);
    const Byte* high = block + 128 + 32 * n;
    const auto half = [&](int i) {
      const V::I four = field(low + 16 * i, j < 2 ? 0 : 4, 15);
      const V::I two = V::shl<4>(field(high + 16 * i, 2 * j, 3));
      return scaled(V::or_i(four, two), -32, V::splat(s.scale[2 * step + i]));
    };
    return {half(0), half(1)};
  }
};

struct WeightIq4Xs {
  static constexpr DType kType = DType::iq4_xs;
  static constexpr int kSteps = 8, kBytes = 136, kElement = 0;
  using Shared = GroupScales;

  static Shared open(const Byte* block) {
    const float d = half_at(block);
    const std::uint32_t high = load_u16(block + 2), low = load_u32(block + 4);
    Shared s;
    for (int g = 0; g < 8; ++g) {
      const std::uint32_t code = (low >> (4 * g) & 15U) | (high >> (2 * g) & 3U) << 4;
      s.scale[g] = d * static_cast<float>(static_cast<int>(code) - 32);
    }
    return s;
  }
  static Weights unpack(const Byte* block, const Shared& s, int j) {
    return looked_up(kNonLinear, block + 8 + 16 * j, s.scale[j]);
  }
};

}  // namespace
}  // namespace orrery::kernels
