// The definition of class i8 as obvious loops: codes and scales of every quantized type, the
// activation row, and the sum with four partials.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/row_kernels.hpp"
#include "tensor/dtype.hpp"
#include "tensor/half.hpp"

namespace orrery::kernels::testing {

using Bytes = std::vector<std::uint8_t>;

// One weight row: code (zero point taken off) per weight, scale and added minimum per group.
struct CodedRow {
  int group = 32;
  std::vector<int> code;
  std::vector<float> scale, min;
  bool has_min = false;
};

inline float half_at(const std::uint8_t* p) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, p, 2);
  return f16_to_f32(bits);
}

inline int nibble_of(const std::uint8_t* qs, int i) {
  return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

inline constexpr int kNonLinearCodes[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr int kE2m1Codes[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Code i of a 32-value block of the simple types.
inline int code_32(DType type, const std::uint8_t* p, int i) {
  std::uint32_t high = 0;
  switch (type) {
    case DType::q4_0:
      return nibble_of(p + 2, i) - 8;
    case DType::q4_1:
      return nibble_of(p + 4, i);
    case DType::q5_0:
      std::memcpy(&high, p + 2, 4);
      return nibble_of(p + 6, i) + static_cast<int>((high >> i) & 1) * 16 - 16;
    case DType::q5_1:
      std::memcpy(&high, p + 4, 4);
      return nibble_of(p + 8, i) + static_cast<int>((high >> i) & 1) * 16;
    case DType::q8_0:
      return static_cast<std::int8_t>(p[2 + i]);
    case DType::iq4_nl:
      return kNonLinearCodes[nibble_of(p + 2, i)];
    default:  // mxfp4
      return kE2m1Codes[nibble_of(p + 1, i)];
  }
}

inline void append_32(DType type, const std::uint8_t* p, CodedRow& row) {
  for (int i = 0; i < 32; ++i) row.code.push_back(code_32(type, p, i));
  row.scale.push_back(type == DType::mxfp4 ? std::ldexp(1.0F, p[0] - 128) : half_at(p));
  row.min.push_back(row.has_min ? half_at(p + 2) : 0.0F);
}

inline void append_nvfp4(const std::uint8_t* p, CodedRow& row) {
  for (int i = 0; i < 64; ++i) {
    const std::uint8_t byte = p[4 + i / 16 * 8 + i % 8];
    row.code.push_back(kE2m1Codes[i % 16 < 8 ? byte & 15 : byte >> 4]);
  }
  for (int g = 0; g < 4; ++g) {
    const int e = (p[g] >> 3) & 15, m = p[g] & 7;
    const float value = e == 0 ? std::ldexp(static_cast<float>(m), -9)
                               : std::ldexp(static_cast<float>(8 + m), e - 10);
    row.scale.push_back(p[g] == 0x7F ? 0.0F : 0.5F * value);
    row.min.push_back(0.0F);
  }
}

inline int two_bits_at(const std::uint8_t* qs, int i) {
  return (qs[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4))) & 3;
}

inline void append_q2_k(const std::uint8_t* p, CodedRow& row) {
  for (int i = 0; i < 256; ++i) row.code.push_back(two_bits_at(p + 16, i));
  for (int g = 0; g < 16; ++g) {
    row.scale.push_back(half_at(p + 80) * static_cast<float>(p[g] & 15));
    row.min.push_back(-(half_at(p + 82) * static_cast<float>(p[g] >> 4)));
  }
}

inline void append_q3_k(const std::uint8_t* p, CodedRow& row) {
  for (int i = 0; i < 256; ++i) {
    const bool set = ((p[i % 32] >> (i / 32)) & 1) != 0;
    row.code.push_back(two_bits_at(p + 32, i) - (set ? 0 : 4));
  }
  const std::uint8_t* s = p + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = (s[g % 8] >> (4 * (g / 8))) & 15, high = (s[8 + g % 4] >> (2 * (g / 4))) & 3;
    row.scale.push_back(half_at(p + 108) * static_cast<float>(low + 16 * high - 32));
    row.min.push_back(0.0F);
  }
}

inline void append_q45_k(const std::uint8_t* p, bool five, CodedRow& row) {
  const std::uint8_t* s = p + 4;
  const std::uint8_t* qs = p + (five ? 48 : 16);
  for (int g = 0; g < 8; ++g) {
    int scale = s[g & 3] & 63, min = s[4 + (g & 3)] & 63;
    if (g >= 4) {
      scale = (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
      min = (s[g + 4] >> 4) | (s[g] >> 6) << 4;
    }
    row.scale.push_back(half_at(p) * static_cast<float>(scale));
    row.min.push_back(-(half_at(p + 2) * static_cast<float>(min)));
    for (int l = 0; l < 32; ++l) {
      const int low = (qs[32 * (g / 2) + l] >> (4 * (g % 2))) & 15;
      row.code.push_back(low + (five ? ((p[16 + l] >> g) & 1) * 16 : 0));
    }
  }
}

inline void append_q6_k(const std::uint8_t* p, CodedRow& row) {
  for (int i = 0; i < 256; ++i) {
    const int n = i / 128, j = i / 32 % 4, l = i % 32;
    const int low = (p[64 * n + 32 * (j & 1) + l] >> (j < 2 ? 0 : 4)) & 15;
    row.code.push_back(low + 16 * two_bits_at(p + 128, i) - 32);
  }
  for (int g = 0; g < 16; ++g) {
    row.scale.push_back(half_at(p + 208) *
                        static_cast<float>(static_cast<std::int8_t>(p[192 + g])));
    row.min.push_back(0.0F);
  }
}

inline void append_iq4_xs(const std::uint8_t* p, CodedRow& row) {
  const int high = p[2] | p[3] << 8;
  for (int g = 0; g < 8; ++g) {
    const int low = (p[4 + g / 2] >> (4 * (g % 2))) & 15;
    const int scale = low + 16 * ((high >> (2 * g)) & 3) - 32;
    row.scale.push_back(half_at(p) * static_cast<float>(scale));
    row.min.push_back(0.0F);
    for (int l = 0; l < 32; ++l) {
      row.code.push_back(kNonLinearCodes[nibble_of(p + 8 + 16 * g, l)]);
    }
  }
}

inline CodedRow code_row(DType type, const std::uint8_t* p, int k) {
  const DTypeInfo& info = dtype_info(type);
  CodedRow row;
  row.group = static_cast<int>(info.scale_group);
  row.has_min = type == DType::q4_1 || type == DType::q5_1 || type == DType::q2_k ||
                type == DType::q4_k || type == DType::q5_k;
  for (int i = 0; i < k; i += static_cast<int>(info.block_len), p += info.block_bytes) {
    if (type == DType::nvfp4) {
      append_nvfp4(p, row);
    } else if (type == DType::q2_k) {
      append_q2_k(p, row);
    } else if (type == DType::q3_k) {
      append_q3_k(p, row);
    } else if (type == DType::q4_k || type == DType::q5_k) {
      append_q45_k(p, type == DType::q5_k, row);
    } else if (type == DType::q6_k) {
      append_q6_k(p, row);
    } else if (type == DType::iq4_xs) {
      append_iq4_xs(p, row);
    } else {
      append_32(type, p, row);
    }
  }
  return row;
}

// Reads the parts of a Q8 row.
struct Q8View {
  const std::int8_t* q;
  const float* d;
  const std::int16_t* sums;
};
inline Q8View view_q8(const std::uint8_t* p, int k) {
  const Q8Layout layout = q8_layout(static_cast<std::size_t>(k));
  return {reinterpret_cast<const std::int8_t*>(p),
          reinterpret_cast<const float*>(p + layout.d_offset),
          reinterpret_cast<const std::int16_t*>(p + layout.sums_offset)};
}

// The product of class i8 with `partials` partial sums (the definition has four).
inline float dot_i8(const CodedRow& w, const Q8View& x, int k, int partials = 4) {
  std::vector<float> acc(static_cast<std::size_t>(partials), 0.0F);
  for (int b = 0; b < k / w.group; ++b) {
    std::int32_t product = 0, sum = 0;
    for (int i = b * w.group; i < (b + 1) * w.group; ++i) {
      product += w.code[static_cast<std::size_t>(i)] * x.q[i];
      sum += x.q[i];
    }
    const float d = x.d[b * w.group / 32];
    const auto at = static_cast<std::size_t>(b);
    const float s = w.scale[at] * d;
    float& partial = acc[at % acc.size()];
    partial = std::fma(static_cast<float>(product), s, partial);
    if (w.has_min) {
      const float c = d * static_cast<float>(sum);
      partial = std::fma(w.min[at], c, partial);
    }
  }
  if (partials != 4) {
    float y = 0.0F;
    for (const float partial : acc) y += partial;
    return y;
  }
  return (acc[0] + acc[2]) + (acc[1] + acc[3]);
}

}  // namespace orrery::kernels::testing
