// What unpacking weights needs beside V: bytes to lanes, and 32 floats to a row of bf16.
#pragma once

#include "kernels/body/block_numbers.hpp"
#include "kernels/isa/vec.hpp"

namespace orrery::kernels {
namespace {

struct Lanes2 {
  V::I low, high;
};

#if defined(ORRERY_VEC_AVX512)

// 16 bytes, zero or sign extended.
ORRERY_INLINE V::I widen_u8(const std::uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
ORRERY_INLINE V::I widen_i8(const std::uint8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
ORRERY_INLINE V::I shift_right(V::I a, int n) {
  return {_mm512_srl_epi32(a.v, _mm_cvtsi32_si128(n))};
}
// 16 in the lanes whose bit of `bits` is set, else 0.
ORRERY_INLINE V::I sixteen_where(std::uint16_t bits) {
  return {_mm512_maskz_set1_epi32(bits, 16)};
}
ORRERY_INLINE V::I widen_i8(__m128i a) {
  return {_mm512_cvtepi8_epi32(a)};
}

#elif defined(ORRERY_VEC_AVX2)

ORRERY_INLINE V::I widen_u8(const std::uint8_t* p) {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(q)),
          _mm256_cvtepu8_epi32(_mm_srli_si128(_mm_loadu_si128(q), 8))};
}
ORRERY_INLINE V::I widen_i8(__m128i a) {
  return {_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8))};
}
ORRERY_INLINE V::I widen_i8(const std::uint8_t* p) {
  return widen_i8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
ORRERY_INLINE V::I shift_right(V::I a, int n) {
  const __m128i count = _mm_cvtsi32_si128(n);
  return {_mm256_srl_epi32(a.l, count), _mm256_srl_epi32(a.h, count)};
}
ORRERY_INLINE V::I sixteen_where(std::uint16_t bits) {
  // Bit i of the lower and of the upper byte moves to bit 4 of lane i.
  const __m256i all = _mm256_set1_epi32(bits << 4), mask = _mm256_set1_epi32(16);
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm256_and_si256(_mm256_srlv_epi32(all, low), mask),
          _mm256_and_si256(_mm256_srlv_epi32(all, high), mask)};
}

#else

ORRERY_INLINE V::I widen_u8(const std::uint8_t* p) {
  return V::map_i([&](int i) { return p[i]; });
}
ORRERY_INLINE V::I widen_i8(const std::uint8_t* p) {
  return V::map_i([&](int i) { return static_cast<std::int8_t>(p[i]); });
}
ORRERY_INLINE V::I shift_right(V::I a, int n) {
  return V::map_i([&](int i) { return static_cast<std::uint32_t>(a.v[i]) >> n; });
}
ORRERY_INLINE V::I sixteen_where(std::uint16_t bits) {
  return V::map_i([&](int i) { return (bits >> i & 1) << 4; });
}

#endif

#if defined(ORRERY_VEC_AVX512) || defined(ORRERY_VEC_AVX2)

// table[nibble] of 16 bytes: the lower nibbles, the upper ones.
ORRERY_INLINE Lanes2 lookup_nibbles(const std::int8_t* table, const std::uint8_t* p) {
  const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i nibble = _mm_set1_epi8(15);
  const __m128i upper = _mm_and_si128(_mm_srli_epi16(codes, 4), nibble);
  return {widen_i8(_mm_shuffle_epi8(entries, _mm_and_si128(codes, nibble))),
          widen_i8(_mm_shuffle_epi8(entries, upper))};
}
ORRERY_INLINE float half_at(const std::uint8_t* p) {
  return _cvtsh_ss(load_u16(p));
}

#else

ORRERY_INLINE Lanes2 lookup_nibbles(const std::int8_t* table, const std::uint8_t* p) {
  return {V::map_i([&](int i) { return table[p[i] & 15]; }),
          V::map_i([&](int i) { return table[p[i] >> 4]; })};
}
ORRERY_INLINE float half_at(const std::uint8_t* p) {
  return from_f16(load_u16(p));
}

#endif

// 32 floats to bf16, in order: 64 bytes.
ORRERY_INLINE void store_bf16_row(void* p, V::F low, V::F high) {
#if defined(__AVX512BF16__)
  _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh(high, low));
#else
  V::store_bf16(p, low);
  V::store_bf16(static_cast<std::uint8_t*>(p) + 32, high);
#endif
}

// 16 pairs of bf16: even[0], odd[0], even[1], odd[1], ...
ORRERY_INLINE void store_bf16_pairs(void* p, V::F even, V::F odd) {
#if defined(__AVX512BF16__)
  const __m256i first = (__m256i)_mm512_cvtneps_pbh(even);
  const __m256i second = (__m256i)_mm512_cvtneps_pbh(odd);
  const __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16);
  _mm512_storeu_si512(p, _mm512_or_si512(_mm512_cvtepu16_epi32(first), wide));
#else
  V::store_bf16_pairs(p, even, odd);
#endif
}

}  // namespace
}  // namespace orrery::kernels
