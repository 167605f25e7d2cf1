// Rows of weights or cached elements as floats, and weighted sums of float rows.
#pragma once

#include "kernels/body/block_unpack_k.hpp"
#include "kernels/row_kernels.hpp"

namespace orrery::kernels {
namespace {

inline void store_weights(const Weights& values, float* out) {
  V::store(out, values.low);
  V::store(out + 16, values.high);
}

// n elements, whole blocks or of a plain type.
template <class W>
void decode_elements(const void* row, int n, float* out) {
  constexpr int kBlock = 32 * W::kSteps;
  const auto* block = static_cast<const Byte*>(row);
  for (; n >= kBlock; n -= kBlock, out += kBlock, block += W::kBytes) {
    const typename W::Shared shared = W::open(block);
    for (int step = 0; step < W::kSteps; ++step) {
      store_weights(W::unpack(block, shared, step), out + 32 * step);
    }
  }
  if constexpr (W::kElement != 0) {
    if (n == 0) return;
    alignas(64) Byte padded[W::kBytes] = {};
    alignas(64) float values[32];
    __builtin_memcpy(padded, block, static_cast<std::size_t>(n) * W::kElement);
    store_weights(W::unpack(padded, {}, 0), values);
    __builtin_memcpy(out, values, static_cast<std::size_t>(n) * sizeof(float));
  }
}

template <int kSlices>
ORRERY_INLINE void sum_slices(const RowSum& a, int i) {
  const int rest = a.cols - i;
  const auto part = [&](const float* p, int s) {
    const int left = rest - 16 * s;
    return left >= 16 ? V::load(p + i + 16 * s) : V::load_partial(p + i + 16 * s, left);
  };
  V::F acc[kSlices];
  for (int s = 0; s < kSlices; ++s) acc[s] = part(a.out, s);
  const float* row = a.rows;
  for (int j = 0; j < a.n; ++j, row += a.stride) {
    const V::F factor = V::splat(a.factors[j]);
    for (int s = 0; s < kSlices; ++s) acc[s] = V::fma(factor, part(row, s), acc[s]);
  }
  for (int s = 0; s < kSlices; ++s) {
    const int left = rest - 16 * s;
    V::store_partial(a.out + i + 16 * s, acc[s], left < 16 ? left : 16);
  }
}

inline void add_rows(const RowSum& a) {
  int i = 0;
  for (; i + 64 <= a.cols; i += 64) sum_slices<4>(a, i);
  for (; i < a.cols; i += 16) sum_slices<1>(a, i);
}

}  // namespace
}  // namespace orrery::kernels
