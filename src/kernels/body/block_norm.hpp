// Norms and RoPE on F blocks (class f32): vertical, lanes = tokens. The operations and their order
// are those of the row kernels, so the bits of a token are the same whichever kernel runs.
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/body/block_layout.hpp"
#include "kernels/isa/vec.hpp"

namespace orrery::kernels {
namespace {

// The sums over n features of term(x, half's sum), one for each 16 tokens: feature f goes to
// virtual lane f % 16, lanes fold as V::sum. Some features at a time, so that both halves read them
// in L1.
template <class Term>
ORRERY_INLINE void lane_sums(const float* x, int n, V::F* sums, Term term) {
  constexpr int kFeatures = 128;
  V::F lanes[2][16];
  for (int i = 0; i < 16; ++i) lanes[0][i] = lanes[1][i] = V::zero();
  for (int begin = 0; begin < n; begin += kFeatures) {
    const int end = n - begin < kFeatures ? n : begin + kFeatures;
    for (int half = 0; half < 2; ++half) {
      const float* at = x + 16 * half;
      V::F acc[16];
      for (int i = 0; i < 16; ++i) acc[i] = lanes[half][i];
      int f = begin;
      for (; f + 16 <= end; f += 16) {
        for (int i = 0; i < 16; ++i) acc[i] = term(V::load(at + 32 * (f + i)), acc[i], half);
      }
      for (int i = 0; f + i < end; ++i) acc[i] = term(V::load(at + 32 * (f + i)), acc[i], half);
      for (int i = 0; i < 16; ++i) lanes[half][i] = acc[i];
    }
  }
  for (int half = 0; half < 2; ++half) {
    for (int fold = 8; fold > 0; fold /= 2) {
      for (int i = 0; i < fold; ++i) {
        lanes[half][i] = V::add(lanes[half][i], lanes[half][i + fold]);
      }
    }
    sums[half] = lanes[half][0];
  }
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
  V::F mean[2] = {V::zero(), V::zero()}, r[2];
  if (a.layer_norm) {
    lane_sums(a.x, a.n, mean, [](V::F v, V::F acc, int) { return V::add(v, acc); });
    for (V::F& m : mean) m = V::div(m, V::splat(static_cast<float>(a.n)));
  }
  lane_sums(a.x, a.n, r, [&](V::F v, V::F acc, int half) {
    const V::F centred = V::sub(v, mean[half]);
    return V::fma(centred, centred, acc);
  });
  for (V::F& squares : r) squares = inverse_norm(squares, a.n, a.eps);
  for (int f = 0; f < a.n; f += 2) {
    for (int half = 0; half < 2; ++half) {
      V::F y[2] = {V::zero(), V::zero()};
      for (int i = 0; i < 2 && f + i < a.n; ++i) {
        y[i] = norm_value(a, f + i, half, mean[half], r[half]);
        if (a.out_f != nullptr) V::store(a.out_f + 32 * (f + i) + 16 * half, y[i]);
      }
      if (a.out_x != nullptr) store_x_pair(a.out_x, f, half, y[0], y[1]);
    }
  }
  if (a.out_x != nullptr) pad_x(a.out_x, a.n);
}

void block_rope(const RopeBlock& a) {
  const int pairs = a.rope_dim / 2;
  const float* from = a.from != nullptr ? a.from : a.x;
  for (int i = 0; i < pairs; ++i) {
    float* first = a.x + 32 * (a.adjacent ? 2 * i : i);
    float* second = a.x + 32 * (a.adjacent ? 2 * i + 1 : i + pairs);
    const float *from_first = from + (first - a.x), *from_second = from + (second - a.x);
    for (int half = 0; half < 32; half += 16) {
      const V::F cos = V::load(a.cos + 32 * i + half), sin = V::load(a.sin + 32 * i + half);
      const V::F x = V::load(from_first + half), y = V::load(from_second + half);
      V::store(first + half, V::sub(V::mul(x, cos), V::mul(y, sin)));
      V::store(second + half, V::add(V::mul(x, sin), V::mul(y, cos)));
    }
  }
}

}  // namespace
}  // namespace orrery::kernels
