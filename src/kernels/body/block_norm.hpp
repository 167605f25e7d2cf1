// Norms and RoPE on F blocks (class f32): vertical, lanes = tokens. The operations and their order
// are those of the row kernels, so the bits of a token are the same whichever kernel runs.
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/body/block_layout.hpp"
#include "kernels/isa/vec.hpp"

namespace orrery::kernels {
namespace {

// The sum over n features of term(x): feature f goes to virtual lane f % 16, lanes fold as V::sum.
template <class Term>
ORRERY_INLINE V::F lane_sum(const float* x, int n, Term term) {
  V::F acc[16];
  for (int i = 0; i < 16; ++i) acc[i] = V::zero();
  int f = 0;
  for (; f + 16 <= n; f += 16) {
    for (int i = 0; i < 16; ++i) acc[i] = term(V::load(x + 32 * (f + i)), acc[i]);
  }
  for (int i = 0; f + i < n; ++i) acc[i] = term(V::load(x + 32 * (f + i)), acc[i]);
  for (int fold = 8; fold > 0; fold /= 2) {
    for (int i = 0; i < fold; ++i) acc[i] = V::add(acc[i], acc[i + fold]);
  }
  return acc[0];
}

ORRERY_INLINE V::F square_sum(const float* x, int n, V::F mean) {
  return lane_sum(x, n, [&](V::F v, V::F acc) {
    const V::F centred = V::sub(v, mean);
    return V::fma(centred, centred, acc);
  });
}

// 1 / sqrt(mean square + eps)
ORRERY_INLINE V::F inverse_norm(V::F squares, int n, float eps) {
  const V::F mean = V::div(squares, V::splat(static_cast<float>(n)));
  return V::div(V::splat(1.0F), V::sqrt(V::add(mean, V::splat(eps))));
}

ORRERY_INLINE V::F norm_value(const NormBlock& a, int f, int half, V::F mean, V::F r) {
  const float* at = a.x + 32 * f + 16 * half;
  V::F y = V::load(at);
  if (a.layer_norm) y = V::sub(y, mean);
  y = V::mul(y, r);
  y = V::mul(y, V::splat((a.weight != nullptr ? a.weight[f] : 1.0F) + a.offset));
  if (a.bias != nullptr) y = V::add(y, V::splat(a.bias[f]));
  if (a.residual != nullptr) y = V::add(y, V::load(a.residual + 32 * f + 16 * half));
  return y;
}

void block_norm(const NormBlock& a) {
  for (int half = 0; half < 2; ++half) {
    const float* x = a.x + 16 * half;
    V::F mean = V::zero();
    if (a.layer_norm) {
      const V::F sum = lane_sum(x, a.n, [](V::F v, V::F acc) { return V::add(v, acc); });
      mean = V::div(sum, V::splat(static_cast<float>(a.n)));
    }
    const V::F r = inverse_norm(square_sum(x, a.n, mean), a.n, a.eps);
    for (int f = 0; f < a.n; f += 2) {
      V::F y[2] = {V::zero(), V::zero()};
      for (int i = 0; i < 2 && f + i < a.n; ++i) {
        y[i] = norm_value(a, f + i, half, mean, r);
        if (a.out_f != nullptr) V::store(a.out_f + 32 * (f + i) + 16 * half, y[i]);
      }
      if (a.out_x != nullptr) store_x_pair(a.out_x, f, half, y[0], y[1]);
    }
  }
  if (a.out_x != nullptr) pad_x(a.out_x, a.n);
}

void block_head_norm(float* x, int dim, const float* weight, float eps, float offset) {
  block_norm({.x = x,
              .weight = weight,
              .bias = nullptr,
              .residual = nullptr,
              .out_f = x,
              .out_x = nullptr,
              .n = dim,
              .eps = eps,
              .offset = offset,
              .layer_norm = false});
}

void block_rope(const RopeBlock& a) {
  const int pairs = a.rope_dim / 2;
  for (int i = 0; i < pairs; ++i) {
    float* first = a.x + 32 * (a.adjacent ? 2 * i : i);
    float* second = a.x + 32 * (a.adjacent ? 2 * i + 1 : i + pairs);
    for (int half = 0; half < 32; half += 16) {
      const V::F cos = V::load(a.cos + 32 * i + half), sin = V::load(a.sin + 32 * i + half);
      const V::F x = V::load(first + half), y = V::load(second + half);
      V::store(first + half, V::sub(V::mul(x, cos), V::mul(y, sin)));
      V::store(second + half, V::add(V::mul(x, sin), V::mul(y, cos)));
    }
  }
}

}  // namespace
}  // namespace orrery::kernels
