// Vector tiles for AVX2 with FMA; see tile_avx512.hpp.
#pragma once

#include <immintrin.h>

#include "kernels/isa/widen.hpp"

namespace orrery::kernels {
namespace {

struct Lanes {
  using Weight = float;
  using Acc = __m256;
  struct Pair {
    __m256 first, second;
  };
  static constexpr int kRows = 4, kRegs = 2, kTokens = 8;

  static void store_row(Weight* p, V::F low, V::F high) {
    V::store(p, V::round_bf16(low));
    V::store(p + 16, V::round_bf16(high));
  }
  static Acc zero() { return _mm256_setzero_ps(); }
  static Acc load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Acc a) { _mm256_storeu_ps(p, a); }
  static Pair load_pair(const void* p) {
    const __m256i both = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(both, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(both, upper))};
  }
  template <int N>
  static void mac(Acc* acc, const Pair* p, const Weight* w) {
    const __m256 first = _mm256_broadcast_ss(w), second = _mm256_broadcast_ss(w + 1);
    for (int i = 0; i < N; ++i) {
      acc[i] = _mm256_fmadd_ps(first, p[i].first, acc[i]);
      acc[i] = _mm256_fmadd_ps(second, p[i].second, acc[i]);
    }
  }
};

}  // namespace
}  // namespace orrery::kernels
