// Vector tiles for AVX-512 without bf16 instructions: f32 fma, the weights f32 values that were
// rounded to bf16, the pairs of X expanded by shift and mask.
#pragma once

#include <immintrin.h>

#include "kernels/isa/widen.hpp"

namespace orrery::kernels {
namespace {

struct Lanes {
  using Weight = float;
  using Acc = __m512;
  struct Pair {
    __m512 first, second;
  };
  static constexpr int kRows = 8, kRegs = 2, kTokens = 16;

  static void store_row(Weight* p, V::F low, V::F high) {
    V::store(p, V::round_bf16(low));
    V::store(p + 16, V::round_bf16(high));
  }
  static Acc zero() { return _mm512_setzero_ps(); }
  static Acc load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Acc a) { _mm512_storeu_ps(p, a); }
  static Pair load_pair(const void* p) {
    const __m512i both = _mm512_loadu_si512(p);
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(both, upper))};
  }
  template <int N>
  static void mac(Acc* acc, const Pair* p, const Weight* w) {
    const __m512 first = _mm512_set1_ps(w[0]), second = _mm512_set1_ps(w[1]);
    for (int i = 0; i < N; ++i) {
      acc[i] = _mm512_fmadd_ps(first, p[i].first, acc[i]);
      acc[i] = _mm512_fmadd_ps(second, p[i].second, acc[i]);
    }
  }
};

}  // namespace
}  // namespace orrery::kernels
