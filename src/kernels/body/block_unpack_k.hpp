// File blocks of 256 weights -> f32 weights, 32 of a row at a time; see block_unpack.hpp.
// Step j of a block covers its weights 32 j to 32 j + 31.
#pragma once

#include "kernels/body/block_unpack.hpp"

namespace orrery::kernels {
namespace {

struct WeightQ2K {
  static constexpr DType kType = DType::q2_k;
  static constexpr int kBlock = 256, kBytes = 84;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * (step / 8);
    const int j = step % 8;
    const Byte* codes = block + 16 + 32 * (j / 4);
    const int shift = 2 * (j % 4);
    const float d = half_at(block + 80), dmin = half_at(block + 82);
    for (int half = 0; half < 2; ++half) {
      const Byte pair = block[2 * j + half];
      const float scale = d * static_cast<float>(pair & 15);
      const float min = dmin * static_cast<float>(pair >> 4);
      for (int i = 16 * half; i < 16 * half + 16; ++i) {
        w[i] = scale * static_cast<float>((codes[i] >> shift) & 3) - min;
      }
    }
  }
};

struct WeightQ3K {
  static constexpr DType kType = DType::q3_k;
  static constexpr int kBlock = 256, kBytes = 110;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * (step / 8);
    const int j = step % 8;
    const Byte* codes = block + 32 + 32 * (j / 4);
    const int shift = 2 * (j % 4);
    const float d = half_at(block + 108);
    for (int half = 0; half < 2; ++half) {
      const float scale = d * static_cast<float>(scale_of(block + 96, 2 * j + half));
      for (int i = 16 * half; i < 16 * half + 16; ++i) {
        const int high = (block[i] >> j) & 1;
        w[i] = scale * static_cast<float>(((codes[i] >> shift) & 3) + 4 * high - 4);
      }
    }
  }
  // The 6-bit scale of group g of 16 weights.
  static int scale_of(const Byte* s, int g) {
    const int low = (s[g % 8] >> (4 * (g / 8))) & 15;
    const int high = (s[8 + g % 4] >> (2 * (g / 4))) & 3;
    return (low | high << 4) - 32;
  }
};

// The 6-bit scale and minimum of group g of 32 weights (Q4_K, Q5_K).
struct ScaleMin {
  int scale, min;
};
inline ScaleMin scale_min(const Byte* s, int g) {
  if (g < 4) return {s[g] & 63, s[g + 4] & 63};
  return {(s[g + 4] & 15) | (s[g - 4] >> 6) << 4, (s[g + 4] >> 4) | (s[g] >> 6) << 4};
}

struct WeightQ4K {
  static constexpr DType kType = DType::q4_k;
  static constexpr int kBlock = 256, kBytes = 144;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * (step / 8);
    const int j = step % 8;
    const ScaleMin pair = scale_min(block + 4, j);
    const float scale = half_at(block) * static_cast<float>(pair.scale);
    const float min = half_at(block + 2) * static_cast<float>(pair.min);
    const Byte* codes = block + 16 + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int i = 0; i < 32; ++i) {
      w[i] = scale * static_cast<float>((codes[i] >> shift) & 15) - min;
    }
  }
};

struct WeightQ5K {
  static constexpr DType kType = DType::q5_k;
  static constexpr int kBlock = 256, kBytes = 176;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * (step / 8);
    const int j = step % 8;
    const ScaleMin pair = scale_min(block + 4, j);
    const float scale = half_at(block) * static_cast<float>(pair.scale);
    const float min = half_at(block + 2) * static_cast<float>(pair.min);
    const Byte* codes = block + 48 + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int i = 0; i < 32; ++i) {
      const int high = ((block[16 + i] >> j) & 1) << 4;
      w[i] = scale * static_cast<float>(((codes[i] >> shift) & 15) | high) - min;
    }
  }
};

struct WeightQ6K {
  static constexpr DType kType = DType::q6_k;
  static constexpr int kBlock = 256, kBytes = 210;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * (step / 8);
    const int n = step % 8 / 4, j = step % 4;
    const Byte* low = block + 64 * n + 32 * (j & 1);
    const Byte* high = block + 128 + 32 * n;
    const float d = half_at(block + 208);
    for (int half = 0; half < 2; ++half) {
      const Byte code = block[192 + 8 * n + 2 * j + half];
      const float scale = d * static_cast<float>(static_cast<std::int8_t>(code));
      for (int i = 16 * half; i < 16 * half + 16; ++i) {
        const int value = ((low[i] >> (j & 2 ? 4 : 0)) & 15) | ((high[i] >> (2 * j)) & 3) << 4;
        w[i] = scale * static_cast<float>(value - 32);
      }
    }
  }
};

struct WeightIq4Xs {
  static constexpr DType kType = DType::iq4_xs;
  static constexpr int kBlock = 256, kBytes = 136;
  static void unpack(const Byte* row, int step, float* w) {
    const Byte* block = row + kBytes * (step / 8);
    const int j = step % 8;
    const int low = (block[4 + j / 2] >> (4 * (j % 2))) & 15;
    const int high = (read_u16(block + 2) >> (2 * j)) & 3;
    const float scale = half_at(block) * static_cast<float>((low | high << 4) - 32);
    unpack_table<16>(kNonLinear, block + 8 + 16 * j, scale, w);
  }
};

}  // namespace
}  // namespace orrery::kernels
