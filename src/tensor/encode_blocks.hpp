// The encoders of single blocks, one file for each group of types (encode_*.cpp), and what they
// write with.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/dtype.hpp"
#include "tensor/half.hpp"

namespace orrery::encode {

// One block: `x` and the weights `w` of its squared errors, both block_len long, to block_bytes.
using EncodeBlock = void (*)(const float* x, const float* w, std::uint8_t* block);

// Each null for a type of another file.
EncodeBlock encoder_of_32(DType type);     // Q4_0 to Q8_0
EncodeBlock encoder_with_min(DType type);  // Q2_K, Q4_K, Q5_K
EncodeBlock encoder_signed(DType type);    // Q3_K, Q6_K, IQ4_XS
EncodeBlock encoder_of_table(DType type);  // IQ4_NL, MXFP4, NVFP4

// The value as F16 gives it back; what is too large becomes the largest.
inline float as_f16(float value) {
  constexpr float kLargest = 65504.0F;
  const float limited = value > kLargest ? kLargest : value < -kLargest ? -kLargest : value;
  return f16_to_f32(f32_to_f16(limited));
}

inline void put_f16(std::uint8_t* at, float value) {
  const std::uint16_t bits = f32_to_f16(value);
  std::memcpy(at, &bits, 2);
}

// Values i and i + n/2 of n codes share byte i.
inline void put_nibbles(std::uint8_t* at, const int* codes, int n) {
  for (int i = 0; i < n / 2; ++i) {
    at[i] = static_cast<std::uint8_t>((codes[i] & 15) | (codes[i + n / 2] & 15) << 4);
  }
}

}  // namespace orrery::encode
