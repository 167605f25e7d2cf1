// Row kernels without weights: quantization, norms, RoPE, activations and elementwise operations.
#pragma once

#include "kernels/body/math.hpp"
#include "kernels/row_kernels.hpp"

namespace orrery::kernels {
namespace {

// Calls op(i, load, store) for each vector of 16, the last one cut to n: the loads fill with zeros.
template <class Op>
[[gnu::always_inline]] inline void for_each_vector(int n, Op op) {
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    op(
        i, [](const float* p) __attribute__((always_inline)) { return V::load(p); },
        [](float* p, V::F v) __attribute__((always_inline)) { V::store(p, v); });
  }
  if (i < n) {
    const int rest = n - i;
    op(
        i,
        [rest](const float* p) __attribute__((always_inline)) { return V::load_partial(p, rest); },
        [rest](float* p, V::F v) __attribute__((always_inline)) { V::store_partial(p, v, rest); });
  }
}

// Largest magnitude of 32 values: lanes of the two vectors, then the tree of V::max_lane.
inline float quantize_block(const float* x, std::int8_t* q, std::int16_t* sums) {
  const V::F a = V::load(x), b = V::load(x + 16);
  const float largest = V::max_lane(V::max(V::abs(a), V::abs(b)));
  const float d = largest / 127.0F;
  const V::F low = V::splat(-127.0F), high = V::splat(127.0F), divisor = V::splat(d);
  for (int half = 0; half < 2; ++half) {
    // A zero block divides by zero: NaN and infinities become codes here, and zeros below.
    V::F scaled = V::div(half == 0 ? a : b, divisor);
    scaled = V::min(V::max(scaled, low), high);
    const V::I codes = V::round_int(scaled);
    const V::I kept = d == 0.0F ? V::splat_i(0) : codes;
    V::store_i8(q + 16 * half, kept);
    sums[half] = static_cast<std::int16_t>(V::sum_i(kept));
  }
  return d;
}

inline void quantize_q8(const float* x, int k, void* row) {
  auto* bytes = static_cast<std::uint8_t*>(row);
  const Q8Layout layout = q8_layout(static_cast<std::size_t>(k));
  auto* q = reinterpret_cast<std::int8_t*>(bytes);
  auto* d = reinterpret_cast<float*>(bytes + layout.d_offset);
  auto* sums = reinterpret_cast<std::int16_t*>(bytes + layout.sums_offset);
  for (int i = 0; i < k; i += 32) d[i / 32] = quantize_block(x + i, q + i, sums + i / 16);
}

// Sum of x, then sum of (x - mean)^2 where the mean is subtracted, else of x^2.
inline void norm(const NormRow& a) {
  float mean = 0.0F;
  const float count = static_cast<float>(a.n);
  if (a.layer_norm) {
    V::F total = V::zero();
    for_each_vector(a.n, [&](int i, auto load, auto) { total = V::add(total, load(a.x + i)); });
    mean = V::sum(total) / count;
  }
  const V::F center = V::splat(mean);
  V::F squares = V::zero();
  for_each_vector(a.n, [&](int i, auto load, auto) {
    const V::F delta = V::sub(load(a.x + i), center);
    // The lanes past a cut end hold -mean: they must not count.
    const V::F counted = V::first(a.n - i < 16 ? a.n - i : 16, delta, V::zero());
    squares = V::fma(counted, counted, squares);
  });
  const V::F r = V::splat(1.0F / __builtin_sqrtf(V::sum(squares) / count + a.eps));
  const V::F offset = V::splat(a.offset);
  for_each_vector(a.n, [&](int i, auto load, auto store) {
    const V::F weight = a.weight != nullptr ? load(a.weight + i) : V::splat(1.0F);
    V::F y = V::mul(V::mul(V::sub(load(a.x + i), center), r), V::add(weight, offset));
    if (a.bias != nullptr) y = V::add(y, load(a.bias + i));
    if (a.residual != nullptr) y = V::add(y, load(a.residual + i));
    store(a.out + i, y);
  });
}

// (x0, x1) -> (x0 cos - x1 sin, x0 sin + x1 cos); every product is rounded.
inline void rope_halves(const RopeRow& a) {
  const int half = a.rope_dim / 2;
  for_each_vector(half, [&](int i, auto load, auto store) {
    const V::F c = load(a.cos + i), s = load(a.sin + i);
    const V::F x0 = load(a.x + i), x1 = load(a.x + half + i);
    store(a.x + i, V::sub(V::mul(x0, c), V::mul(x1, s)));
    store(a.x + half + i, V::add(V::mul(x0, s), V::mul(x1, c)));
  });
}

inline void rope(const RopeRow& a) {
  if (!a.adjacent) return rope_halves(a);
  for (int i = 0; i < a.rope_dim / 2; ++i) {
    const float c = a.cos[i], s = a.sin[i], x0 = a.x[2 * i], x1 = a.x[2 * i + 1];
    a.x[2 * i] = x0 * c - x1 * s;
    a.x[2 * i + 1] = x0 * s + x1 * c;
  }
}

[[gnu::always_inline]] inline V::F activation(ActivationKind kind, V::F x) {
  switch (kind) {
    case ActivationKind::silu:
      return silu(x);
    case ActivationKind::gelu_tanh:
      return gelu_tanh(x);
    case ActivationKind::gelu_erf:
      return gelu_erf(x);
    case ActivationKind::sigmoid:
      return sigmoid(x);
    case ActivationKind::swiglu_clamped:
      return clamped_gate(x);
    case ActivationKind::none:
      break;
  }
  return x;
}

inline void activate(ActivationKind kind, float* y, int n) {
  for_each_vector(
      n, [&](int i, auto load, auto store) { store(y + i, activation(kind, load(y + i))); });
}

inline void glu(ActivationKind kind, const float* gate, const float* up, float* out, int n) {
  const bool clamped = kind == ActivationKind::swiglu_clamped;
  for_each_vector(n, [&](int i, auto load, auto store) {
    const V::F factor = clamped ? clamped_up(load(up + i)) : load(up + i);
    store(out + i, V::mul(activation(kind, load(gate + i)), factor));
  });
}

inline void add(const float* a, const float* b, float* out, int n) {
  for_each_vector(
      n, [&](int i, auto load, auto store) { store(out + i, V::add(load(a + i), load(b + i))); });
}

inline void mul(const float* a, const float* b, float* out, int n) {
  for_each_vector(
      n, [&](int i, auto load, auto store) { store(out + i, V::mul(load(a + i), load(b + i))); });
}

inline void scale_add(float* y, float scale, const float* residual, int n) {
  const V::F factor = V::splat(scale);
  for_each_vector(n, [&](int i, auto load, auto store) {
    V::F v = V::mul(load(y + i), factor);
    if (residual != nullptr) v = V::add(v, load(residual + i));
    store(y + i, v);
  });
}

inline void softcap(float* y, float cap, int n) {
  const V::F limit = V::splat(cap);
  for_each_vector(n, [&](int i, auto load, auto store) {
    store(y + i, V::mul(limit, tanh(V::div(load(y + i), limit))));
  });
}

inline void to_f16(const float* x, void* out, int n) {
  auto* bytes = static_cast<std::uint8_t*>(out);
  int i = 0;
  for (; i + 16 <= n; i += 16) V::store_f16(bytes + 2 * i, V::load(x + i));
  if (i < n) V::store_f16_partial(bytes + 2 * i, V::load_partial(x + i, n - i), n - i);
}

inline void to_bf16(const float* x, void* out, int n) {
  auto* bytes = static_cast<std::uint8_t*>(out);
  int i = 0;
  for (; i + 16 <= n; i += 16) V::store_bf16(bytes + 2 * i, V::load(x + i));
  if (i == n) return;
  std::uint16_t rest[16];
  V::store_bf16(rest, V::load_partial(x + i, n - i));
  __builtin_memcpy(bytes + 2 * i, rest, 2 * static_cast<std::size_t>(n - i));
}

inline void from_f16(const void* x, float* out, int n) {
  const auto* bytes = static_cast<const std::uint8_t*>(x);
  int i = 0;
  for (; i + 16 <= n; i += 16) V::store(out + i, V::load_f16(bytes + 2 * i));
  if (i < n) V::store_partial(out + i, V::load_f16_partial(bytes + 2 * i, n - i), n - i);
}

}  // namespace
}  // namespace orrery::kernels
