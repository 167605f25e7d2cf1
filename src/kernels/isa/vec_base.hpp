// What every vec_*.hpp shares: inlining and unaligned scalar loads.
#pragma once

#include <cstddef>
#include <cstdint>

#define ORRERY_INLINE [[gnu::always_inline]] static inline

namespace orrery::kernels {
namespace {

ORRERY_INLINE std::uint16_t load_u16(const void* p) {
  std::uint16_t v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

ORRERY_INLINE std::uint32_t load_u32(const void* p) {
  std::uint32_t v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

ORRERY_INLINE std::uint32_t float_bits(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}
ORRERY_INLINE float bits_float(std::uint32_t x) {
  return __builtin_bit_cast(float, x);
}

}  // namespace
}  // namespace orrery::kernels
