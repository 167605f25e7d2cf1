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

}  // namespace
}  // namespace orrery::kernels
