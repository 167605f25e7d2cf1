// Elementary functions on V: explicit polynomials, the same bits on every ISA.
#pragma once

#include "kernels/isa/vec.hpp"

namespace orrery::kernels {
namespace {

// e^x, relative error below 2e-7. Below -87.33 the result is +0, above 88.37 it is infinity; NaN
// stays NaN.
ORRERY_INLINE V::F exp(V::F x) {
  const V::F low = V::splat(-87.33F);
  const V::F high = V::splat(88.37F);
  const V::F bounded = V::min(high, V::max(low, x));
  // 1.5 * 2^23 rounds to an integer n and leaves n in the low bits.
  const V::F magic = V::splat(0x1.8p23F);
  const V::F shifted = V::fma(bounded, V::splat(0x1.715476p0F), magic);
  const V::F n = V::sub(shifted, magic);
  V::F r = V::fnma(n, V::splat(0x1.62e400p-1F), bounded);
  r = V::fnma(n, V::splat(0x1.7f7d1cp-20F), r);
  // Taylor terms of e^r - 1 - r on |r| <= ln 2 / 2, evened out (Cephes expf).
  V::F p = V::splat(1.9875691500e-4F);
  p = V::fma(p, r, V::splat(1.3981999507e-3F));
  p = V::fma(p, r, V::splat(8.3334519073e-3F));
  p = V::fma(p, r, V::splat(4.1665795894e-2F));
  p = V::fma(p, r, V::splat(1.6666665459e-1F));
  p = V::fma(p, r, V::splat(5.0000001201e-1F));
  p = V::fma(p, V::mul(r, r), V::add(r, V::splat(1.0F)));
  const V::F scale = V::as_float(V::add_i(V::shl<23>(V::as_int(shifted)), V::splat_i(0x3F800000)));
  const V::F y = V::select_lt(high, x, V::splat(__builtin_inff()), V::mul(p, scale));
  return V::select_lt(x, low, V::zero(), y);
}

// 1 / (1 + e^-x)
ORRERY_INLINE V::F sigmoid(V::F x) {
  const V::F one = V::splat(1.0F);
  return V::div(one, V::add(one, exp(V::neg(x))));
}

ORRERY_INLINE V::F tanh(V::F x) {
  const V::F size = V::abs(x);
  const V::F one = V::splat(1.0F);
  const V::F e = exp(V::mul(size, V::splat(-2.0F)));
  const V::F large = V::div(V::sub(one, e), V::add(one, e));
  // An odd polynomial where 1 - e would cancel (Cephes tanhf).
  const V::F z = V::mul(x, x);
  V::F p = V::splat(-5.70498872745e-3F);
  p = V::fma(p, z, V::splat(2.06390887954e-2F));
  p = V::fma(p, z, V::splat(-5.37397155531e-2F));
  p = V::fma(p, z, V::splat(1.33314422036e-1F));
  p = V::fma(p, z, V::splat(-3.33332819422e-1F));
  const V::F small = V::fma(V::mul(p, z), size, size);
  return V::copysign(V::select_lt(size, V::splat(0.625F), small, large), x);
}

ORRERY_INLINE V::F silu(V::F x) {
  return V::div(x, V::add(V::splat(1.0F), exp(V::neg(x))));
}

// gpt-oss: x * sigmoid(1.702 x) for a gate x of at most 7, times 1 + up for up within -7 and 7.
ORRERY_INLINE V::F clamped_gate(V::F gate) {
  const V::F x = V::min(V::splat(7.0F), gate);
  return V::div(x, V::add(V::splat(1.0F), exp(V::mul(x, V::splat(-1.702F)))));
}
ORRERY_INLINE V::F clamped_up(V::F up) {
  const V::F limit = V::splat(7.0F);
  return V::add(V::splat(1.0F), V::min(limit, V::max(V::neg(limit), up)));
}

// x / 2 * (1 + tanh(u)) = x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
ORRERY_INLINE V::F gelu_tanh(V::F x) {
  const V::F cubic = V::fma(V::mul(x, x), V::splat(0.044715F), V::splat(1.0F));
  const V::F u = V::mul(V::mul(x, V::splat(1.5957691216F)), cubic);
  return V::div(x, V::add(V::splat(1.0F), exp(V::neg(u))));
}

// x / 2 * erfc(-x / sqrt 2); erfc by Abramowitz and Stegun 7.1.26 (absolute error 1.5e-7).
ORRERY_INLINE V::F gelu_erf(V::F x) {
  const V::F z = V::mul(V::abs(x), V::splat(0.70710678119F));
  const V::F t = V::div(V::splat(1.0F), V::fma(z, V::splat(0.3275911F), V::splat(1.0F)));
  V::F p = V::splat(1.061405429F);
  p = V::fma(p, t, V::splat(-1.453152027F));
  p = V::fma(p, t, V::splat(1.421413741F));
  p = V::fma(p, t, V::splat(-0.284496736F));
  p = V::fma(p, t, V::splat(0.254829592F));
  const V::F erfc = V::mul(V::mul(p, t), exp(V::neg(V::mul(z, z))));
  const V::F tail = V::mul(V::mul(x, V::splat(0.5F)), erfc);
  return V::select_lt(x, V::zero(), tail, V::sub(x, tail));
}

}  // namespace
}  // namespace orrery::kernels
