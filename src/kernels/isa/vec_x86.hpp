// What the AVX2 and AVX-512 vocabularies share: 16-byte quarters (see vec_emu.hpp for definitions).
#pragma once

#include <immintrin.h>

#include "kernels/isa/vec_base.hpp"

namespace orrery::kernels {
namespace {

struct VQuarter {
  using Q = __m128i;

  ORRERY_INLINE Q load_q(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  ORRERY_INLINE Q splat_q32(std::uint32_t x) { return _mm_set1_epi32(static_cast<int>(x)); }
  ORRERY_INLINE Q from_u32(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    return _mm_set_epi32(static_cast<int>(d), static_cast<int>(c), static_cast<int>(b),
                         static_cast<int>(a));
  }
  ORRERY_INLINE void transpose_q(Q& a, Q& b, Q& c, Q& d) {
    const Q ab0 = _mm_unpacklo_epi32(a, b), ab1 = _mm_unpackhi_epi32(a, b);
    const Q cd0 = _mm_unpacklo_epi32(c, d), cd1 = _mm_unpackhi_epi32(c, d);
    a = _mm_unpacklo_epi64(ab0, cd0);
    b = _mm_unpackhi_epi64(ab0, cd0);
    c = _mm_unpacklo_epi64(ab1, cd1);
    d = _mm_unpackhi_epi64(ab1, cd1);
  }
  ORRERY_INLINE Q and_q(Q a, Q b) { return _mm_and_si128(a, b); }
  ORRERY_INLINE Q or_q(Q a, Q b) { return _mm_or_si128(a, b); }
  template <int n>
  ORRERY_INLINE Q shr_q(Q a) {
    return _mm_srli_epi32(a, n);
  }
  template <int n>
  ORRERY_INLINE Q shl_q(Q a) {
    return _mm_slli_epi32(a, n);
  }
  // Byte g of part r to byte 4 g + r.
  ORRERY_INLINE Q transpose_bytes(Q a) {
    return _mm_shuffle_epi8(a, _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  }
  ORRERY_INLINE __m128 f16_low_q(Q a) {
    const Q packed = _mm_shuffle_epi8(
        a, _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1));
    return _mm_cvtph_ps(packed);
  }
  ORRERY_INLINE __m128 f16_high_q(Q a) { return f16_low_q(_mm_srli_epi32(a, 16)); }
  // Lanes i + 8, i + 4, i + 2, i + 1: from the fold to 8 on.
  ORRERY_INLINE float sum8(__m256 x) {
    __m128 v = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    v = _mm_add_ss(v, _mm_shuffle_ps(v, v, 1));
    return _mm_cvtss_f32(v);
  }
  ORRERY_INLINE float max8(__m256 x) {
    __m128 v = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    v = _mm_max_ps(v, _mm_movehl_ps(v, v));
    v = _mm_max_ss(v, _mm_shuffle_ps(v, v, 1));
    return _mm_cvtss_f32(v);
  }
  // Four vectors folded to 8 lanes: their sums, with the same tree as sum8.
  ORRERY_INLINE void sum4x8(__m256 a, __m256 b, __m256 c, __m256 d, float* out) {
    const __m256 ac =
        _mm256_add_ps(_mm256_permute2f128_ps(a, c, 0x20), _mm256_permute2f128_ps(a, c, 0x31));
    const __m256 bd =
        _mm256_add_ps(_mm256_permute2f128_ps(b, d, 0x20), _mm256_permute2f128_ps(b, d, 0x31));
    // a0 + a2, a1 + a3, b0 + b2, b1 + b3 | the same of c and d
    const __m256 pairs =
        _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xEE));
    const __m128 ab = _mm256_castps256_ps128(pairs), cd = _mm256_extractf128_ps(pairs, 1);
    _mm_storeu_ps(out, _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xDD)));
  }
};

}  // namespace
}  // namespace orrery::kernels
