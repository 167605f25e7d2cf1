// Exponentials of logits. Plain float operations in a fixed order (the build forbids contraction),
// so that a seed draws the same tokens whatever compiler or instruction set is used.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace orrery::engine {

// e^x for x <= 0, relative error below 2e-7; 0 below about -87.7, where floats lose digits. Without
// branches, so that loops over it become vector code.
inline float exp_nonpositive(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  const float bounded = x < -104.0F ? -104.0F : x;
  const float shifted = bounded * 1.44269504F + kRound;
  const float n = shifted - kRound;
  float r = bounded - n * 0.693359375F;  // ln 2 in two parts: the first product is exact
  r = r - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;  // minimax over [-ln2/2, ln2/2] (Cephes expf)
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const std::int32_t biased = std::bit_cast<std::int32_t>(shifted) - 0x4B400000 + 127;
  const std::int32_t exponent = biased < 0 ? 0 : biased;  // 0: a factor of 0
  return p * std::bit_cast<float>(exponent << 23);
}

// out[i] = e^(logits[i] - max) for i < n; returns their sum. `max` is at least every logit.
double exponentials(const float* logits, std::size_t n, float max, float* out);

// The largest of n values; -inf for n = 0. No NaN among them.
float max_of(const float* values, std::size_t n);

// ln of the sum of e^logit over n logits. NaN counts as -inf.
double log_sum_exp(const float* logits, std::size_t n);

}  // namespace orrery::engine
