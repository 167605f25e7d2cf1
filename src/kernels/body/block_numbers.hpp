// Scalar conversions between f32, bf16 and f16, for loops that the compiler vectorizes. Kernel
// units include no standard library code: an inline function of it could leak another unit's
// instructions.
#pragma once

#include <cstdint>

namespace orrery::kernels {
namespace {

inline float as_float(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
inline std::uint32_t as_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}

inline float from_bf16(std::uint16_t half) {
  return as_float(std::uint32_t{half} << 16);
}

// bf16 (round to nearest even) in the upper half, lower half zero; NaN becomes a quiet NaN.
inline std::uint32_t round_bf16(float value) {
  const std::uint32_t bits = as_bits(value);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
  const std::uint32_t nan = bits | 0x400000U;
  return ((bits & 0x7FFFFFFFU) > 0x7F800000U ? nan : rounded) & 0xFFFF0000U;
}

inline std::uint16_t to_bf16(float value) {
  return static_cast<std::uint16_t>(round_bf16(value) >> 16);
}

// Two bf16 values as a pair of k: the first in the lower half.
inline std::uint32_t pair_bf16(float first, float second) {
  return round_bf16(first) >> 16 | round_bf16(second);
}

// Exact; no f32 denormals on the way, so the flush modes do not matter.
inline float from_f16(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7FFFU;
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;
  const std::uint32_t normal = (magnitude << 13) + (112U << 23);
  const std::uint32_t special = normal + (112U << 23);
  const std::uint32_t large = magnitude >= 0x7C00U ? special : normal;
  return as_float((magnitude < 0x400U ? as_bits(small) : large) | sign);
}

// Round to nearest even; overflow becomes infinity, NaN a quiet NaN.
inline std::uint16_t to_f16(float value) {
  const std::uint32_t bits = as_bits(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xFFFU + odd) >> 13;
  // Adding 0.5 leaves the multiple of 2^-24 in the lower bits, rounded to nearest even.
  const std::uint32_t small = as_bits(as_float(magnitude) + 0.5F) - 0x3F000000U;
  std::uint32_t half = magnitude < 0x38800000U ? small : normal;
  half = magnitude >= 0x477FF000U ? 0x7C00U : half;
  half = magnitude > 0x7F800000U ? 0x7E00U : half;
  return static_cast<std::uint16_t>(half | sign);
}

inline std::uint16_t read_u16(const std::uint8_t* p) {
  return static_cast<std::uint16_t>(p[0] | p[1] << 8);
}

}  // namespace
}  // namespace orrery::kernels
