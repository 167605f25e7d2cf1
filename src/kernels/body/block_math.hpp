// Elementary functions of class b16: results that are rounded to bf16 (relative error 4e-3) need no
// more than a few terms.
#pragma once

#include "kernels/body/math.hpp"

namespace orrery::kernels {
namespace {

// 1 + f (a + f (b + f (c + f d)))
ORRERY_INLINE V::F quartic(V::F f, float a, float b, float c, float d) {
  V::F y = V::fma(V::splat(d), f, V::splat(c));
  y = V::fma(y, f, V::splat(b));
  y = V::fma(y, f, V::splat(a));
  return V::fma(y, f, V::splat(1.0F));
}

// Where a vocabulary W has instructions that cut and scale. Else the nearest integer is cut off,
// and added to the result's exponent.
template <class W>
ORRERY_INLINE V::F exp2_with(V::F x) {
  if constexpr (requires { W::scale2(x, x); }) {
    const V::F y =
        quartic(W::fraction(x), 0x1.62d6c6p-1F, 0x1.ee245p-3F, 0x1.abf87ap-5F, 0x1.b7f706p-7F);
    return W::scale2(y, x);
  } else {
    const V::F magic = V::splat(0x1.8p23F);  // leaves the nearest integer in the low bits
    const V::F bounded = V::max(V::splat(-127.0F), x);
    const V::F shifted = V::add(bounded, magic);
    const V::F y = quartic(V::sub(bounded, V::sub(shifted, magic)), 0x1.62e12cp-1F, 0x1.ec0378p-3F,
                           0x1.c9fc46p-5F, 0x1.3a02ccp-7F);
    return V::as_float(V::add_i(V::as_int(y), V::shl<23>(V::as_int(shifted))));
  }
}

// 2^x for x <= 126, exactly 1 for 0 and 0 for -inf; from -127 down at most 2^-127. Relative error
// 4e-6 (fitted polynomials).
ORRERY_INLINE V::F exp2_b16(V::F x) {
  return exp2_with<V>(x);
}

// x / (1 + 2^t)
ORRERY_INLINE V::F gated(V::F x, V::F t) {
  const V::F e = exp2_b16(V::min(V::splat(126.0F), t));
  return V::mul(x, reciprocal(V::add(V::splat(1.0F), e)));
}

ORRERY_INLINE V::F silu_b16(V::F x) {
  return gated(x, V::mul(x, V::splat(-0x1.715476p0F)));
}

// As gelu_tanh: x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
ORRERY_INLINE V::F gelu_tanh_b16(V::F x) {
  const V::F cubic = V::fma(V::mul(x, x), V::splat(0.044715F), V::splat(1.0F));
  return gated(x, V::mul(V::mul(x, V::splat(-0x1.715476p0F * 1.5957691216F)), cubic));
}

}  // namespace
}  // namespace orrery::kernels
