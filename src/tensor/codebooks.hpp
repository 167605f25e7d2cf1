// Code points of the types whose codes are no plain integers.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace orrery {

// IQ4_NL and IQ4_XS.
inline constexpr std::array<int, 16> kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                   1,    13,   25,  38,  53,  69,  89,  113};
// E2M1 values, doubled: MXFP4 and NVFP4.
inline constexpr std::array<int, 16> kE2m1 = {0, 1,  2,  3,  4,  6,  8,  12,
                                              0, -1, -2, -3, -4, -6, -8, -12};

// The first code of a value that the table has.
template <std::size_t n>
int index_of(const std::array<int, n>& table, float value) {
  int i = 0;
  while (static_cast<std::size_t>(i) + 1 < n && static_cast<float>(table[i]) != value) ++i;
  return i;
}

// Unsigned E4M3 (bias 7): the sign bit is not read, 0x7F means zero.
inline float ue4m3(std::uint8_t code) {
  if (code == 0 || code == 0x7F) return 0.0F;
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), -9);
  return std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

}  // namespace orrery
