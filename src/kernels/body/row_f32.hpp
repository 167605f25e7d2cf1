// Class f32: weights F32, F16 and BF16 times float rows. 16 virtual lanes, lane i takes k = i mod
// 16 in order by fma, one reduction tree; a cut last vector is filled with zeros.
#pragma once

#include "kernels/body/row_prefetch.hpp"
#include "kernels/isa/vec.hpp"
#include "kernels/row_kernels.hpp"

namespace orrery::kernels {
namespace {

struct ElementF32 {
  static constexpr int kBytes = 4;
  ORRERY_INLINE V::F load(const std::uint8_t* p) {
    return V::load(reinterpret_cast<const float*>(p));
  }
  ORRERY_INLINE V::F load_partial(const std::uint8_t* p, int n) {
    return V::load_partial(reinterpret_cast<const float*>(p), n);
  }
};

struct ElementF16 {
  static constexpr int kBytes = 2;
  ORRERY_INLINE V::F load(const std::uint8_t* p) { return V::load_f16(p); }
  ORRERY_INLINE V::F load_partial(const std::uint8_t* p, int n) {
    return V::load_f16_partial(p, n);
  }
};

struct ElementBf16 {
  static constexpr int kBytes = 2;
  ORRERY_INLINE V::F load(const std::uint8_t* p) { return V::load_bf16(p); }
  ORRERY_INLINE V::F load_partial(const std::uint8_t* p, int n) {
    return V::load_bf16_partial(p, n);
  }
};

template <class Element, int kTile>
void multiply_float_rows(const MatmulRows& a, int row, int first) {
  const std::uint8_t* w[4];
  const float* x[kTile];
  V::F acc[4][kTile];
  for (int r = 0; r < 4; ++r) {
    const int at = row + r < a.n ? row + r : a.n - 1;
    w[r] = static_cast<const std::uint8_t*>(a.w) + static_cast<std::size_t>(at) * a.w_stride;
    for (int t = 0; t < kTile; ++t) acc[r][t] = V::zero();
  }
  for (int t = 0; t < kTile; ++t) {
    x[t] = reinterpret_cast<const float*>(static_cast<const std::uint8_t*>(a.x) +
                                          static_cast<std::size_t>(first + t) * a.x_stride);
  }
  const int whole = a.k / 16 * 16;
  GroupPrefetch<4> ahead(w[0], a.w_stride);
  for (int k = 0; k < whole; k += 16) {
    ahead.fetch(16 * Element::kBytes);
    V::F xs[kTile];
    for (int t = 0; t < kTile; ++t) xs[t] = V::load(x[t] + k);
    for (int r = 0; r < 4; ++r) {
      const std::uint8_t* p = w[r] + k * Element::kBytes;
      const V::F weights = Element::load(p);
      for (int t = 0; t < kTile; ++t) acc[r][t] = V::fma(weights, xs[t], acc[r][t]);
    }
  }
  if (whole < a.k) {
    for (int r = 0; r < 4; ++r) {
      const V::F weights = Element::load_partial(w[r] + whole * Element::kBytes, a.k - whole);
      for (int t = 0; t < kTile; ++t)
        acc[r][t] = V::fma(weights, V::load_partial(x[t] + whole, a.k - whole), acc[r][t]);
    }
  }
  for (int t = 0; t < kTile; ++t) {
    float y[4];
    V::sum4(acc[0][t], acc[1][t], acc[2][t], acc[3][t], y);
    float* out = a.y + static_cast<std::size_t>(first + t) * a.y_stride + row;
    for (int r = 0; r < 4 && row + r < a.n; ++r) out[r] = y[r];
  }
}

template <class Element>
[[gnu::always_inline]] inline void matmul_f32(const MatmulRows& a) {
  for (int row = 0; row < a.n; row += 4) {
    int first = 0;
    if constexpr (V::kMaxTile >= 4) {
      for (; first + 4 <= a.m; first += 4) multiply_float_rows<Element, 4>(a, row, first);
    }
    for (; first < a.m; ++first) multiply_float_rows<Element, 1>(a, row, first);
  }
}

}  // namespace
}  // namespace orrery::kernels
