// Elementary functions of class b16: results that are rounded to bf16 (relative error 4e-3) need no
// more than a few terms.
#pragma once

#include "kernels/body/math.hpp"

namespace orrery::kernels {
namespace {

// 2^x for x <= 126, exactly 0 from -127 down; relative error 4e-6 (fitted polynomial). The result
// of the polynomial gets its exponent by an integer addition.
ORRERY_INLINE V::F exp2_b16(V::F x) {
  const V::F magic = V::splat(0x1.8p23F);  // leaves the nearest integer in the low bits
  const V::F bounded = V::max(V::splat(-127.0F), x);
  const V::F shifted = V::add(bounded, magic);
  const V::F f = V::sub(bounded, V::sub(shifted, magic));
  V::F y = V::splat(0x1.3a02ccp-7F);
  y = V::fma(y, f, V::splat(0x1.c9fc46p-5F));
  y = V::fma(y, f, V::splat(0x1.ec0378p-3F));
  y = V::fma(y, f, V::splat(0x1.62e12cp-1F));
  y = V::fma(y, f, V::splat(1.0F));
  return V::as_float(V::add_i(V::as_int(y), V::shl<23>(V::as_int(shifted))));
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
