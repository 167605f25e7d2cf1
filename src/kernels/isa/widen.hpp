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

// The half at p in all lanes.
ORRERY_INLINE V::F splat_half(const std::uint8_t* p) {
#if defined(ORRERY_VEC_AVX512)
  return _mm512_cvtph_ps(_mm256_set1_epi16(static_cast<short>(load_u16(p))));
#else
  return V::splat(half_at(p));
#endif
}
// 1 / x for 1 <= x < 2^126, to some units in the last place.
ORRERY_INLINE V::F reciprocal(V::F x) {
#if defined(ORRERY_VEC_AVX512)
  const V::F y = _mm512_rcp14_ps(x);  // and one Newton step
  return V::fma(y, V::fnma(x, y, V::splat(1.0F)), y);
#else
  return V::div(V::splat(1.0F), x);
#endif
}

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
  const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
  alignas(64) static constexpr std::uint16_t kOrder[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  _mm512_storeu_si512(p, _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), both));
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

// Types whose weights are entries of a small table of bf16 values, made for each block: a store of
// 32 weights is then one permutation.
#if defined(ORRERY_VEC_AVX512)
using Table = __m512i;  // up to 32 entries

// The first two halves of n <= 16 blocks.
ORRERY_INLINE void half_headers(const std::uint8_t* p, int stride, int n, float* first,
                                float* second) {
  if (n < 4) {  // less work one by one
    for (int i = 0; i < n; ++i, p += stride) first[i] = half_at(p), second[i] = half_at(p + 2);
    return;
  }
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i at = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(stride));
  const __m512i pairs = _mm512_mask_i32gather_epi32(
      _mm512_setzero_si512(), static_cast<__mmask16>((1U << n) - 1U), at, p, 1);
  _mm512_store_ps(first, V::f16_low({pairs}));
  _mm512_store_ps(second, V::f16_high({pairs}));
}

ORRERY_INLINE Table table16(V::F entries) {
#if defined(__AVX512BF16__)
  return _mm512_castsi256_si512((__m256i)_mm512_cvtneps_pbh(entries));
#else
  const __m512i bits = _mm512_srli_epi32(V::as_int(V::round_bf16(entries)).v, 16);
  return _mm512_castsi256_si512(_mm512_cvtepi32_epi16(bits));
#endif
}
ORRERY_INLINE Table table32(V::F low, V::F high) {
#if defined(__AVX512BF16__)
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
#else
  const auto half = [](V::F entries) {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(V::as_int(V::round_bf16(entries)).v, 16));
  };
  return _mm512_inserti64x4(_mm512_castsi256_si512(half(low)), half(high), 1);
#endif
}
// A constant that is read from memory: made by a broadcast it would take the port of permutations.
ORRERY_INLINE __m512i read_constant(const std::uint16_t* p) {
  asm("" : "+r"(p));
  return _mm512_load_si512(p);
}
ORRERY_INLINE __m512i words_of(const std::uint8_t* p) {
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepu8_epi16(_mm256_broadcastsi128_si256(codes));
}
// Indices into a table, of which the lowest five bits count: lower nibbles of 16 bytes, then the
// upper ones.
ORRERY_INLINE __m512i nibble_words(const std::uint8_t* p) {
  alignas(64) static constexpr std::uint16_t kShift[32] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                           0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4,
                                                           4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
  alignas(64) static constexpr std::uint16_t kMask[32] = {
      15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
      15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15};
  const __m512i words = _mm512_srlv_epi16(words_of(p), _mm512_load_si512(kShift));
  return _mm512_and_si512(words, read_constant(kMask));
}
ORRERY_INLINE void store_nibbles(void* target, Table table, const std::uint8_t* p) {
  _mm512_storeu_si512(target, _mm512_permutexvar_epi16(nibble_words(p), table));
}
// The same for 16 bytes each of two rows, the second of which has the upper half of the table.
ORRERY_INLINE void store_nibbles_of_two(void* first, void* second, Table table,
                                        const std::uint8_t* p, const std::uint8_t* q) {
  alignas(64) static constexpr std::uint16_t kUpper[32] = {
      16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
      16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16};
  _mm512_storeu_si512(first, _mm512_permutexvar_epi16(nibble_words(p), table));
  const __m512i upper = _mm512_or_si512(nibble_words(q), read_constant(kUpper));
  _mm512_storeu_si512(second, _mm512_permutexvar_epi16(upper, table));
}
// The first two halves of 16 blocks.
ORRERY_INLINE void row_headers(const std::uint8_t* p, std::size_t stride, float* first,
                               float* second) {
  alignas(64) static constexpr std::uint16_t kApart[32] = {
      0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
      1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i at = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(static_cast<int>(stride)));
  const __m512i pairs = _mm512_i32gather_epi32(at, p, 1);
  const __m512i apart = _mm512_permutexvar_epi16(_mm512_load_si512(kApart), pairs);
  _mm512_store_ps(first, _mm512_cvtph_ps(_mm512_castsi512_si256(apart)));
  _mm512_store_ps(second, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(apart, 1)));
}
// The same with bit i of the 32 bits at `high` as bit 4 of code i.
ORRERY_INLINE void store_five_bits(void* target, Table table, const std::uint8_t* p,
                                   const std::uint8_t* high) {
  const __m512i four = nibble_words(p);
  const __m512i codes =
      _mm512_mask_add_epi16(four, _cvtu32_mask32(load_u32(high)), four, _mm512_set1_epi16(16));
  _mm512_storeu_si512(target, _mm512_permutexvar_epi16(codes, table));
}
// The lower nibbles of 32 bytes, and the upper ones, whose entries are the second half.
ORRERY_INLINE void store_nibbles_of_64(void* lower, void* upper, Table table,
                                       const std::uint8_t* p) {
  const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m512i words = _mm512_cvtepu8_epi16(codes);
  const __m512i low = _mm512_and_si512(words, _mm512_set1_epi16(15));
  const __m512i high = _mm512_or_si512(_mm512_srli_epi16(words, 4), _mm512_set1_epi16(16));
  _mm512_storeu_si512(lower, _mm512_permutexvar_epi16(low, table));
  _mm512_storeu_si512(upper, _mm512_permutexvar_epi16(high, table));
}
// The same with bit `bit` of byte i at `high` as bit 4 of code i.
ORRERY_INLINE void store_five_bits_of_32(void* target, Table table, const std::uint8_t* p,
                                         int upper, const std::uint8_t* high, int bit) {
  const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i fifth = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high));
  const __m512i words = _mm512_cvtepu8_epi16(codes);
  const __m512i four =
      _mm512_and_si512(upper != 0 ? _mm512_srli_epi16(words, 4) : words, _mm512_set1_epi16(15));
  const __mmask32 set = _mm256_test_epi8_mask(fifth, _mm256_set1_epi8(static_cast<char>(1 << bit)));
  const __m512i index = _mm512_mask_add_epi16(four, set, four, _mm512_set1_epi16(16));
  _mm512_storeu_si512(target, _mm512_permutexvar_epi16(index, table));
}
// Codes of 6 bits, minus 32: lower or upper nibbles of 32 bytes, and bits 2 field and 2 field + 1
// of the 32 bytes at `high`.
ORRERY_INLINE Lanes2 centred_six_bits(const std::uint8_t* p, int upper, const std::uint8_t* high,
                                      int field) {
  const __m256i nibbles = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high));
  const __m256i four = upper != 0 ? _mm256_srli_epi16(nibbles, 4) : nibbles;
  const __m256i two =
      field < 2 ? _mm256_slli_epi16(pairs, 4 - 2 * field) : _mm256_srli_epi16(pairs, 2 * field - 4);
  const __m256i codes = _mm256_or_si256(_mm256_and_si256(four, _mm256_set1_epi8(0x0F)),
                                        _mm256_and_si256(two, _mm256_set1_epi8(0x30)));
  const __m256i centred = _mm256_sub_epi8(codes, _mm256_set1_epi8(32));
  return {widen_i8(_mm256_castsi256_si128(centred)),
          widen_i8(_mm256_extracti128_si256(centred, 1))};
}
#endif

}  // namespace
}  // namespace orrery::kernels
