// Vector tiles for AVX-512 with VDPBF16PS: a pair of k is one 32-bit lane of both operands.
#pragma once

#include <immintrin.h>

#include "kernels/isa/widen.hpp"

namespace orrery::kernels {
namespace {

struct Lanes {
  using Weight = std::uint16_t;
  using Acc = __m512;
  using Pair = __m512i;
  static constexpr int kRows = 8, kRegs = 2, kTokens = 16;

  static void store_row(Weight* p, V::F low, V::F high) { store_bf16_row(p, low, high); }
  static Acc zero() { return _mm512_setzero_ps(); }
  static Acc load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Acc a) { _mm512_storeu_ps(p, a); }
  static Pair load_pair(const void* p) { return _mm512_loadu_si512(p); }
  template <int N>
  static void mac(Acc* acc, const Pair* p, const Weight* w) {
    int both = 0;
    __builtin_memcpy(&both, w, 4);
    const __m512bh weights = (__m512bh)_mm512_set1_epi32(both);
    for (int i = 0; i < N; ++i) {
      acc[i] = _mm512_dpbf16_ps(acc[i], weights, (__m512bh)p[i]);
    }
  }
};

}  // namespace
}  // namespace orrery::kernels
