// What blocks need beside V: bytes to lanes, rows and pairs of bf16, transposition.
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

#elif defined(ORRERY_VEC_NEON)

ORRERY_INLINE V::I widen_i16(int16x8_t low, int16x8_t high) {
  return {{vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)),
           vmovl_high_s16(high)}};
}
ORRERY_INLINE V::I widen_u8(const std::uint8_t* p) {
  const uint8x16_t bytes = vld1q_u8(p);
  return widen_i16(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes))),
                   vreinterpretq_s16_u16(vmovl_high_u8(bytes)));
}
ORRERY_INLINE V::I widen_i8(int8x16_t bytes) {
  return widen_i16(vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
}
ORRERY_INLINE V::I widen_i8(const std::uint8_t* p) {
  return widen_i8(vreinterpretq_s8_u8(vld1q_u8(p)));
}
ORRERY_INLINE V::I shift_right(V::I a, int n) {
  const int32x4_t left = vdupq_n_s32(-n);
  return V::each<V::I>(
      [&](int g) { return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a.v[g]), left)); });
}
ORRERY_INLINE V::I sixteen_where(std::uint16_t bits) {
  // Bit i moves to bit 4 of lane i.
  const std::int32_t lanes[4] = {0, -1, -2, -3};
  const int32x4_t left = vld1q_s32(lanes), all = vdupq_n_s32(bits << 4);
  return V::each<V::I>([&](int g) {
    const uint32x4_t moved =
        vshlq_u32(vreinterpretq_u32_s32(all), vsubq_s32(left, vdupq_n_s32(4 * g)));
    return vandq_s32(vreinterpretq_s32_u32(moved), vdupq_n_s32(16));
  });
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
// The same for two groups of 8 bytes, each with 8 lower and then 8 upper nibbles.
ORRERY_INLINE Lanes2 lookup_groups(const std::int8_t* table, const std::uint8_t* p) {
  const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i nibble = _mm_set1_epi8(15);
  const __m128i low = _mm_shuffle_epi8(entries, _mm_and_si128(codes, nibble));
  const __m128i high = _mm_shuffle_epi8(entries, _mm_and_si128(_mm_srli_epi16(codes, 4), nibble));
  return {widen_i8(_mm_unpacklo_epi64(low, high)), widen_i8(_mm_unpackhi_epi64(low, high))};
}
ORRERY_INLINE float half_at(const std::uint8_t* p) {
  return _cvtsh_ss(load_u16(p));
}

#elif defined(ORRERY_VEC_NEON)

ORRERY_INLINE Lanes2 lookup_nibbles(const std::int8_t* table, const std::uint8_t* p) {
  const int8x16_t entries = vld1q_s8(table);
  const uint8x16_t codes = vld1q_u8(p);
  return {widen_i8(vqtbl1q_s8(entries, vandq_u8(codes, vdupq_n_u8(15)))),
          widen_i8(vqtbl1q_s8(entries, vshrq_n_u8(codes, 4)))};
}
ORRERY_INLINE Lanes2 lookup_groups(const std::int8_t* table, const std::uint8_t* p) {
  const int8x16_t entries = vld1q_s8(table);
  const uint8x16_t codes = vld1q_u8(p);
  const uint8x16_t low = vandq_u8(codes, vdupq_n_u8(15)), high = vshrq_n_u8(codes, 4);
  const auto interleaved = [&](uint64x2_t index) {
    return widen_i8(vqtbl1q_s8(entries, vreinterpretq_u8_u64(index)));
  };
  const uint64x2_t first = vreinterpretq_u64_u8(low), second = vreinterpretq_u64_u8(high);
  return {interleaved(vzip1q_u64(first, second)), interleaved(vzip2q_u64(first, second))};
}
ORRERY_INLINE float half_at(const std::uint8_t* p) {
  return from_f16(load_u16(p));
}

#else

ORRERY_INLINE Lanes2 lookup_nibbles(const std::int8_t* table, const std::uint8_t* p) {
  return {V::map_i([&](int i) { return table[p[i] & 15]; }),
          V::map_i([&](int i) { return table[p[i] >> 4]; })};
}
ORRERY_INLINE Lanes2 lookup_groups(const std::int8_t* table, const std::uint8_t* p) {
  const auto group = [&](int first) {
    return V::map_i([&](int i) {
      const std::uint8_t code = p[first + i % 8];
      return table[i < 8 ? code & 15 : code >> 4];
    });
  };
  return {group(0), group(8)};
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

#if defined(ORRERY_VEC_AVX512)

// r[i][j] <-> r[j][i]
ORRERY_INLINE void transpose16(V::F* r) {
  __m512 a[16], b[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {  // pairs of rows, interleaved within 128 bits
    a[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 4) {  // column c of four rows in the 128-bit parts of b[i + c % 4]
    for (int j = 0; j < 2; ++j) {
      const __m512d low = _mm512_castps_pd(a[i + j]), high = _mm512_castps_pd(a[i + j + 2]);
      b[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      b[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < 4; ++c) {  // 4 x 4 of 128-bit parts
    const __m512 low = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88);
    const __m512 high = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x88);
    const __m512 low_odd = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xDD);
    const __m512 high_odd = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xDD);
    r[c] = _mm512_shuffle_f32x4(low, high, 0x88);
    r[8 + c] = _mm512_shuffle_f32x4(low, high, 0xDD);
    r[4 + c] = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
    r[12 + c] = _mm512_shuffle_f32x4(low_odd, high_odd, 0xDD);
  }
}

#else

// r[i][j] <-> r[j][i]
ORRERY_INLINE void transpose16(V::F* r) {
  float values[16][16];
  for (int i = 0; i < 16; ++i) V::store(values[i], r[i]);
  for (int i = 0; i < 16; ++i) {
    float column[16];
    for (int j = 0; j < 16; ++j) column[j] = values[j][i];
    r[i] = V::load(column);
  }
}

#endif

}  // namespace
}  // namespace orrery::kernels
