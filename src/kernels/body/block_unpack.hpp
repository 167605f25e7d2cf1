// File blocks -> f32 weights, 32 of a row at a time (a k step), scales multiplied in. The value of
// every element is that of orrery::decode_row (tensor/decode.hpp); layouts are those of GGUF.
// Plain loops of fixed length: the compiler vectorizes them for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/body/block_numbers.hpp"
#include "tensor/dtype.hpp"

namespace orrery::kernels {
namespace {

using Byte = std::uint8_t;

struct WeightF32 {
  static constexpr DType kType = DType::f32;
  static constexpr int kBlock = 1, kBytes = 4;
  static void unpack(const Byte* row, int step, float* w) {
    __builtin_memcpy(w, row + 128 * step, 128);
  }
};

struct WeightF16 {
  static constexpr DType kType = DType::f16;
  static constexpr int kBlock = 1, kBytes = 2;
  static void unpack(const Byte* row, int step, float* w) {
    std::uint16_t half[32];
    __builtin_memcpy(half, row + 64 * step, 64);
    for (int i = 0; i < 32; ++i) w[i] = from_f16(half[i]);
  }
};

struct WeightBf16 {
  static constexpr DType kType = DType::bf16;
  static constexpr int kBlock = 1, kBytes = 2;
  static void unpack(const Byte* row, int step, float* w) {
    std::uint16_t half[32];
    __builtin_memcpy(half, row + 64 * step, 64);
    for (int i = 0; i < 32; ++i) w[i] = from_bf16(half[i]);
  }
};

inline float half_at(const Byte* p) {
  return from_f16(read_u16(p));
}

// w = d * (code + zero) + m of 16 bytes: low nibbles are values 0 to 15, high ones 16 to 31.
inline void unpack_nibbles(const Byte* codes, int zero, float d, float m, float* w) {
  for (int i = 0; i < 16; ++i) {
    w[i] = d * static_cast<float>((codes[i] & 15) + zero) + m;
    w[16 + i] = d * static_cast<float>((codes[i] >> 4) + zero) + m;
  }
}

struct WeightQ40 {
  static constexpr DType kType = DType::q4_0;
  static constexpr int kBlock = 32, kBytes = 18;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * step;
    unpack_nibbles(block + 2, -8, half_at(block), 0.0F, w);
  }
};

struct WeightQ41 {
  static constexpr DType kType = DType::q4_1;
  static constexpr int kBlock = 32, kBytes = 20;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * step;
    unpack_nibbles(block + 4, 0, half_at(block), half_at(block + 2), w);
  }
};

// As unpack_nibbles, with bit i of `high` (4 bytes) as bit 4 of code i.
inline void unpack_five_bits(const Byte* codes, const Byte* high, int zero, float d, float m,
                             float* w) {
  const std::uint32_t bits = read_u16(high) | static_cast<std::uint32_t>(read_u16(high + 2)) << 16;
  for (int i = 0; i < 16; ++i) {
    const int low_bit = static_cast<int>((bits >> i) & 1U) << 4;
    const int high_bit = static_cast<int>((bits >> (16 + i)) & 1U) << 4;
    w[i] = d * static_cast<float>(((codes[i] & 15) | low_bit) + zero) + m;
    w[16 + i] = d * static_cast<float>(((codes[i] >> 4) | high_bit) + zero) + m;
  }
}

struct WeightQ50 {
  static constexpr DType kType = DType::q5_0;
  static constexpr int kBlock = 32, kBytes = 22;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * step;
    unpack_five_bits(block + 6, block + 2, -16, half_at(block), 0.0F, w);
  }
};

struct WeightQ51 {
  static constexpr DType kType = DType::q5_1;
  static constexpr int kBlock = 32, kBytes = 24;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * step;
    unpack_five_bits(block + 8, block + 4, 0, half_at(block), half_at(block + 2), w);
  }
};

struct WeightQ80 {
  static constexpr DType kType = DType::q8_0;
  static constexpr int kBlock = 32, kBytes = 34;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * step;
    const float d = half_at(block);
    for (int i = 0; i < 32; ++i) {
      w[i] = d * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
    }
  }
};

// The code points of IQ4_NL and IQ4_XS, and those of E2M1 (doubled).
alignas(16) constexpr std::int8_t kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};
alignas(16) constexpr std::int8_t kE2m1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                               0, -1, -2, -3, -4, -6, -8, -12};

// The n low nibbles of `codes` as values 0 to n - 1, the high ones behind them.
template <int n>
inline void unpack_table(const std::int8_t* table, const Byte* codes, float d, float* w) {
  for (int i = 0; i < n; ++i) {
    w[i] = d * static_cast<float>(table[codes[i] & 15]);
    w[n + i] = d * static_cast<float>(table[codes[i] >> 4]);
  }
}

struct WeightIq4Nl {
  static constexpr DType kType = DType::iq4_nl;
  static constexpr int kBlock = 32, kBytes = 18;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * step;
    unpack_table<16>(kNonLinear, block + 2, half_at(block), w);
  }
};

struct WeightMxfp4 {
  static constexpr DType kType = DType::mxfp4;
  static constexpr int kBlock = 32, kBytes = 17;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * step;
    unpack_table<16>(kE2m1, block + 1, scale(block[0]), w);
  }
  // 2^(e - 128), since the table is doubled; below e = 2 that is an f32 denormal.
  static float scale(std::uint32_t e) { return as_float(e >= 2 ? (e - 1) << 23 : 0x200000U << e); }
};

struct WeightNvfp4 {
  static constexpr DType kType = DType::nvfp4;
  static constexpr int kBlock = 64, kBytes = 36;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * (step / 2);
    for (int half = 0; half < 2; ++half) {
      const int group = 2 * (step % 2) + half;
      unpack_table<8>(kE2m1, block + 4 + 8 * group, scale(block[group]), w + 16 * half);
    }
  }
  // Half of an unsigned E4M3 (bias 7); 0x7F means zero.
  static float scale(std::uint32_t code) {
    const std::uint32_t bits = code & 0x7FU;
    const std::uint32_t exponent = (code >> 3) & 15U;
    const float mantissa = static_cast<float>(code & 7U);
    const float normal = (8.0F + mantissa) * as_float((exponent + 116U) << 23);
    const float value = exponent == 0 ? mantissa * 0x1p-10F : normal;
    return bits == 0x7FU ? 0.0F : value;
  }
};

}  // namespace
}  // namespace orrery::kernels
