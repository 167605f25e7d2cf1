// f16 and bf16 of the emulated vocabulary, as the hardware converts.
#pragma once

#include "kernels/isa/vec_base.hpp"

// Left to the compiler: forced inlining of these loops takes minutes to compile.
#define ORRERY_EMU static inline

namespace orrery::kernels {
namespace {

struct EmuHalf {
  ORRERY_EMU float half(std::uint16_t h) {
    const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16;
    const std::uint32_t exponent = (h >> 10) & 31U;
    const std::uint32_t mantissa = h & 1023U;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
      return bits_float(float_bits(magnitude) | sign);
    }
    // A NaN becomes quiet, as the hardware's conversion does.
    const std::uint32_t quiet = exponent == 31 && mantissa != 0 ? 0x400000U : 0U;
    return bits_float(sign | ((exponent == 31 ? 255U : exponent + 112U) << 23) | (mantissa << 13) |
                      quiet);
  }
  ORRERY_EMU std::uint16_t to_half(float value) {
    const std::uint32_t bits = float_bits(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    const std::uint32_t size = bits & 0x7FFFFFFFU;
    if (size > 0x7F800000U)
      return static_cast<std::uint16_t>(sign | 0x7E00U | ((size >> 13) & 1023U));
    if (size >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 2^16 and more
    if (size >= 0x38800000U) {                                                   // 2^-14: normal
      const std::uint32_t odd = (size >> 13) & 1U;
      return static_cast<std::uint16_t>(sign | ((size - 0x38000000U + 0xFFFU + odd) >> 13));
    }
    if (size < 0x33000000U) return static_cast<std::uint16_t>(sign);  // below 2^-25
    const std::uint32_t shift = 126U - (size >> 23);
    const std::uint32_t mantissa = (size & 0x7FFFFFU) | 0x800000U;
    const std::uint32_t odd = (mantissa >> shift) & 1U;
    return static_cast<std::uint16_t>(sign |
                                      ((mantissa + (1U << (shift - 1)) - 1U + odd) >> shift));
  }
  ORRERY_EMU std::uint16_t to_bf16(float value) {
    const std::uint32_t bits = float_bits(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
      return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
    }
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  }
};

}  // namespace
}  // namespace orrery::kernels
