// The vocabulary on AVX-512 F, BW, DQ, VL and VNNI: one zmm (definitions: vec_emu.hpp).
#pragma once

#include "kernels/isa/vec_x86.hpp"

namespace orrery::kernels {
namespace {

struct V : VQuarter {
  using F = __m512;
  struct I {
    __m512i v;
  };
  struct B {
    __m512i v;
  };

  // vpdpbusd wants unsigned weights: signed ones are stored with the top bit flipped (+ 128).
  static constexpr int kSignedBias = 128;
  static constexpr int kMaxTile = 4;
  static constexpr int kSums = 16;
  static constexpr int kPanelRows = 7;
  static constexpr int kPanelTile = 8;
  static constexpr int kPanelPair = 6;

  // ---- floats ----
  ORRERY_INLINE F splat(float x) { return _mm512_set1_ps(x); }
  ORRERY_INLINE F zero() { return _mm512_setzero_ps(); }
  ORRERY_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
  ORRERY_INLINE F load_partial(const float* p, int n) {
    return _mm512_maskz_loadu_ps(lanes_below(n), p);
  }
  ORRERY_INLINE void store(float* p, F a) { _mm512_storeu_ps(p, a); }
  ORRERY_INLINE void store_partial(float* p, F a, int n) {
    _mm512_mask_storeu_ps(p, lanes_below(n), a);
  }
  ORRERY_INLINE F load_f16(const void* p) { return _mm512_cvtph_ps(load_y(p)); }
  ORRERY_INLINE F load_f16_partial(const void* p, int n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_below(n), p));
  }
  ORRERY_INLINE F load_bf16(const void* p) { return widen_bf16(load_y(p)); }
  ORRERY_INLINE F load_bf16_partial(const void* p, int n) {
    return widen_bf16(_mm256_maskz_loadu_epi16(lanes_below(n), p));
  }
  ORRERY_INLINE void store_f16(void* p, F a) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
  }
  ORRERY_INLINE void store_f16_partial(void* p, F a, int n) {
    _mm256_mask_storeu_epi16(p, lanes_below(n), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
  }
  ORRERY_INLINE void store_bf16(void* p, F a) {
    _mm256_storeu_si256(static_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(bf16_bits(a), 16)));
  }
  ORRERY_INLINE void store_bf16_pairs(void* p, F even, F odd) {
    _mm512_storeu_si512(p, _mm512_or_si512(_mm512_srli_epi32(bf16_bits(even), 16), bf16_bits(odd)));
  }
  ORRERY_INLINE F round_bf16(F a) { return _mm512_castsi512_ps(bf16_bits(a)); }
  ORRERY_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
  ORRERY_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  ORRERY_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  ORRERY_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
  ORRERY_INLINE F sqrt(F a) { return _mm512_sqrt_ps(a); }
  ORRERY_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  ORRERY_INLINE F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  ORRERY_INLINE F min(F a, F b) { return _mm512_min_ps(a, b); }
  ORRERY_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
  ORRERY_INLINE F abs(F a) { return _mm512_abs_ps(a); }
  ORRERY_INLINE F neg(F a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0F)); }
  // a - floor(a), and a * 2^floor(b): 0 where that is -inf.
  ORRERY_INLINE F fraction(F a) { return _mm512_reduce_ps(a, _MM_FROUND_TO_NEG_INF); }
  ORRERY_INLINE F scale2(F a, F b) { return _mm512_scalef_ps(a, b); }
  ORRERY_INLINE F copysign(F a, F s) {
    const F sign = _mm512_set1_ps(-0.0F);
    return _mm512_or_ps(_mm512_andnot_ps(sign, a), _mm512_and_ps(sign, s));
  }
  ORRERY_INLINE F select_lt(F a, F b, F yes, F no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  ORRERY_INLINE F first(int n, F a, F b) { return _mm512_mask_blend_ps(lanes_below(n), b, a); }
  ORRERY_INLINE float sum(F a) { return sum8(fold(a)); }
  ORRERY_INLINE float max_lane(F a) {
    return max8(_mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
  }
  ORRERY_INLINE void sum4(F a, F b, F c, F d, float* out) {
    sum4x8(fold(a), fold(b), fold(c), fold(d), out);
  }
  ORRERY_INLINE void sum_partials(F a, float* out) {
    const __m256 v = fold(a);
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
  }
  ORRERY_INLINE F spread4(const float* p) {
    return _mm512_permutexvar_ps(group_index(), _mm512_castps128_ps512(_mm_loadu_ps(p)));
  }

  ORRERY_INLINE F spread2(const float* p) {
    return _mm512_insertf32x8(_mm512_set1_ps(p[0]), _mm256_set1_ps(p[1]), 1);
  }

  // ---- integers ----
  ORRERY_INLINE I splat_i(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
  ORRERY_INLINE I as_int(F a) { return {_mm512_castps_si512(a)}; }
  ORRERY_INLINE F as_float(I a) { return _mm512_castsi512_ps(a.v); }
  ORRERY_INLINE F to_float(I a) { return _mm512_cvtepi32_ps(a.v); }
  ORRERY_INLINE I round_int(F a) {
    return sub_i(as_int(add(a, splat(0x1.8p23F))), splat_i(0x4B400000));
  }
  ORRERY_INLINE I add_i(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
  ORRERY_INLINE I sub_i(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
  ORRERY_INLINE I and_i(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
  ORRERY_INLINE I or_i(I a, I b) { return {_mm512_or_si512(a.v, b.v)}; }
  template <int n>
  ORRERY_INLINE I shl(I a) {
    return {_mm512_slli_epi32(a.v, n)};
  }
  template <int n>
  ORRERY_INLINE I shr(I a) {
    return {_mm512_srli_epi32(a.v, n)};
  }
  ORRERY_INLINE I select_lt_i(I a, I b, I yes, I no) {
    return {_mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(a.v, b.v), no.v, yes.v)};
  }
  ORRERY_INLINE void store_i8(std::int8_t* p, I a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
  }
  ORRERY_INLINE void store_i16(std::int16_t* p, I a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
  }
  ORRERY_INLINE std::int32_t sum_i(I a) {
    const __m256i v =
        _mm256_add_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti64x4_epi64(a.v, 1));
    __m128i w = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    w = _mm_add_epi32(w, _mm_shuffle_epi32(w, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(w, _mm_shuffle_epi32(w, 0xB1)));
  }
  // Gathers are slow where the processor guards against sampling (29 cycles instead of 11), and
  // words one by one all pass the port that moves lanes: so permutations of whole loads, which stay
  // within the four blocks. Where one load does not reach the last header, a second one ends with
  // it.
  template <int stride>
  ORRERY_INLINE I headers(const std::uint8_t* const (&w)[4]) {
    static_assert(16 < stride && stride < 64);
    constexpr int kWord[4] = {0, stride / 4, 2 * stride / 4, 3 * stride / 4};
    __m512i v;
    if constexpr (kWord[3] < 16) {
      const __m512i at = of_groups(kWord, 16);
      const __m512i ab =
          _mm512_permutex2var_epi32(_mm512_loadu_si512(w[0]), at, _mm512_loadu_si512(w[1]));
      const __m512i cd =
          _mm512_permutex2var_epi32(_mm512_loadu_si512(w[2]), at, _mm512_loadu_si512(w[3]));
      v = _mm512_mask_blend_epi32(0xCCCC, ab, cd);
    } else {
      constexpr int kSecond = kWord[3] - 15;
      constexpr int kOfTwo[4] = {kWord[0], kWord[1],
                                 kWord[2] < 16 ? kWord[2] : kWord[2] - kSecond + 16, 31};
      const __m512i at = of_groups(kOfTwo, 0);
      const auto row = [&](int r) {
        return _mm512_permutex2var_epi32(_mm512_loadu_si512(w[r]), at,
                                         _mm512_loadu_si512(w[r] + 4 * kSecond));
      };
      v = _mm512_mask_blend_epi32(0xCCCC, _mm512_mask_blend_epi32(0x2222, row(0), row(1)),
                                  _mm512_mask_blend_epi32(0x8888, row(2), row(3)));
    }
    if constexpr (stride % 4 == 0) return {v};
    constexpr int kShift[4] = {0, stride % 4 * 8, 2 * stride % 4 * 8, 3 * stride % 4 * 8};
    return {_mm512_srlv_epi32(v, of_groups(kShift, 0))};
  }
  template <int stride>
  ORRERY_INLINE F f16_headers(const std::uint8_t* const (&w)[4]) {
    return f16_low(headers<stride>(w));
  }
  template <int stride>
  ORRERY_INLINE void f16_pair_headers(const std::uint8_t* const (&w)[4], F& low, F& high) {
    static_assert(stride % 4 == 0);  // else headers() has no high halves
    // In each group: four low halves, then four high halves; then all low ones first.
    const __m512i halves = _mm512_shuffle_epi8(
        headers<stride>(w).v, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3,
                                                                   6, 7, 10, 11, 14, 15)));
    const __m512i sorted =
        _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), halves);
    low = _mm512_cvtph_ps(_mm512_castsi512_si256(sorted));
    high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(sorted, 1));
  }
  ORRERY_INLINE F f16_low(I a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a.v)); }
  ORRERY_INLINE F f16_high(I a) { return f16_low(shr<16>(a)); }

  // ---- bytes ----
  ORRERY_INLINE B splat_b(int x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
  ORRERY_INLINE B load_b(const void* p) { return {_mm512_loadu_si512(p)}; }
  ORRERY_INLINE void store_b(void* p, B a) { _mm512_storeu_si512(p, a.v); }
  ORRERY_INLINE B load_4x16(const std::uint8_t* p, std::size_t stride) {
    if (stride == 20) {
      const __m512i at = _mm512_setr_epi32(0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 29, 30, 31);
      return {_mm512_permutex2var_epi32(_mm512_loadu_si512(p), at, _mm512_loadu_si512(p + 12))};
    }
    // Broadcasts from memory under a mask: the one port that moves lanes stays free.
    __m512i v = _mm512_castsi128_si512(load_q(p));
    v = _mm512_mask_broadcast_i32x4(v, 0x00F0, load_q(p + stride));
    v = _mm512_mask_broadcast_i32x4(v, 0x0F00, load_q(p + 2 * stride));
    return {_mm512_mask_broadcast_i32x4(v, 0xF000, load_q(p + 3 * stride))};
  }
  ORRERY_INLINE B load_2x32(const std::uint8_t* p, std::size_t stride) {
    return {_mm512_inserti64x4(_mm512_castsi256_si512(load_y(p)), load_y(p + stride), 1)};
  }
  ORRERY_INLINE B load_2x32(const std::uint8_t* p) { return {_mm512_broadcast_i64x4(load_y(p))}; }
  ORRERY_INLINE B repeat_word(const void* p) {
    return {_mm512_set1_epi32(static_cast<int>(load_u32(p)))};
  }
  ORRERY_INLINE void transpose_words(B& a, B& b, B& c, B& d) {
    const __m512i ab0 = _mm512_unpacklo_epi32(a.v, b.v), ab1 = _mm512_unpackhi_epi32(a.v, b.v);
    const __m512i cd0 = _mm512_unpacklo_epi32(c.v, d.v), cd1 = _mm512_unpackhi_epi32(c.v, d.v);
    a = {_mm512_unpacklo_epi64(ab0, cd0)};
    b = {_mm512_unpackhi_epi64(ab0, cd0)};
    c = {_mm512_unpacklo_epi64(ab1, cd1)};
    d = {_mm512_unpackhi_epi64(ab1, cd1)};
  }
  ORRERY_INLINE void transpose_groups(B& a, B& b, B& c, B& d) {
    const __m512i ab0 = _mm512_shuffle_i32x4(a.v, b.v, 0x44);
    const __m512i ab1 = _mm512_shuffle_i32x4(a.v, b.v, 0xEE);
    const __m512i cd0 = _mm512_shuffle_i32x4(c.v, d.v, 0x44);
    const __m512i cd1 = _mm512_shuffle_i32x4(c.v, d.v, 0xEE);
    a = {_mm512_shuffle_i32x4(ab0, cd0, 0x88)};
    b = {_mm512_shuffle_i32x4(ab0, cd0, 0xDD)};
    c = {_mm512_shuffle_i32x4(ab1, cd1, 0x88)};
    d = {_mm512_shuffle_i32x4(ab1, cd1, 0xDD)};
  }
  ORRERY_INLINE void store_groups(void* p, std::size_t stride, B a) {
    auto* to = static_cast<std::uint8_t*>(p);
    const auto put = [&](std::size_t group, __m128i v) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + group * stride), v);
    };
    put(0, _mm512_castsi512_si128(a.v));
    put(1, _mm512_extracti32x4_epi32(a.v, 1));
    put(2, _mm512_extracti32x4_epi32(a.v, 2));
    put(3, _mm512_extracti32x4_epi32(a.v, 3));
  }
  ORRERY_INLINE B as_bytes(F a) { return {_mm512_castps_si512(a)}; }
  ORRERY_INLINE B repeat_q(Q a) { return {_mm512_broadcast_i32x4(a)}; }
  ORRERY_INLINE B load_4x8_twice(const std::uint8_t* p) {
    return {_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3),
                                     _mm512_castsi256_si512(load_y(p)))};
  }
  ORRERY_INLINE void split_halves(const std::int8_t* p, B& low, B& high) {
    const __m512i ab = _mm512_loadu_si512(p), cd = _mm512_loadu_si512(p + 64);
    low = {_mm512_shuffle_i64x2(ab, cd, 0x88)};
    high = {_mm512_shuffle_i64x2(ab, cd, 0xDD)};
  }
  ORRERY_INLINE void split_nibbles_k(B a, B& low, B& high) {
    const __m512i even = low_nibbles(a).v, odd = high_nibbles(a).v;
    low = {_mm512_permutex2var_epi64(even, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), odd)};
    high = {_mm512_permutex2var_epi64(even, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), odd)};
  }
  ORRERY_INLINE B and_b(B a, B b) { return {_mm512_and_si512(a.v, b.v)}; }
  ORRERY_INLINE B or_b(B a, B b) { return {_mm512_or_si512(a.v, b.v)}; }
  ORRERY_INLINE B xor_b(B a, B b) { return {_mm512_xor_si512(a.v, b.v)}; }
  ORRERY_INLINE B group_bytes(int a, int b, int c, int d) {
    const std::uint32_t x = 0x01010101U;
    const int e[4] = {static_cast<int>(x * static_cast<std::uint32_t>(a)),
                      static_cast<int>(x * static_cast<std::uint32_t>(b)),
                      static_cast<int>(x * static_cast<std::uint32_t>(c)),
                      static_cast<int>(x * static_cast<std::uint32_t>(d))};
    return {_mm512_setr_epi32(e[0], e[0], e[0], e[0], e[1], e[1], e[1], e[1], e[2], e[2], e[2],
                              e[2], e[3], e[3], e[3], e[3])};
  }
  ORRERY_INLINE B signed_codes(B a) { return xor_b(a, splat_b(0x80)); }
  ORRERY_INLINE B low_nibbles(B a) { return and_b(a, splat_b(15)); }
  ORRERY_INLINE B high_nibbles(B a) { return and_b({_mm512_srli_epi16(a.v, 4)}, splat_b(15)); }
  template <int low, int high, int mask>
  ORRERY_INLINE B shift_halves(B a) {
    if constexpr (low == high) {
      return and_b({_mm512_srli_epi16(a.v, low)}, splat_b(mask));
    } else {
      const __m512i shift = _mm512_setr_epi64(low, low, low, low, high, high, high, high);
      return and_b({_mm512_srlv_epi64(a.v, shift)}, splat_b(mask));
    }
  }
  ORRERY_INLINE B nibble_halves(B a) {
    const __m512i shift = _mm512_setr_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    return and_b({_mm512_srlv_epi64(a.v, shift)}, splat_b(15));
  }
  template <int n>
  ORRERY_INLINE B shl_b(B a) {
    return and_b({_mm512_slli_epi16(a.v, n)}, splat_b(0xFF << n & 0xFF));
  }
  template <int value>
  ORRERY_INLINE B where_bits(B a, B mask) {
    return {_mm512_maskz_mov_epi8(_mm512_test_epi8_mask(a.v, mask.v), _mm512_set1_epi8(value))};
  }
  template <bool upper>
  ORRERY_INLINE B fifth_bits(const std::uint8_t* p, std::size_t stride) {
    const std::uint8_t* q = upper ? p + 2 : p;
    const std::uint64_t mask = static_cast<std::uint64_t>(load_u16(q)) |
                               static_cast<std::uint64_t>(load_u16(q + stride)) << 16 |
                               static_cast<std::uint64_t>(load_u16(q + 2 * stride)) << 32 |
                               static_cast<std::uint64_t>(load_u16(q + 3 * stride)) << 48;
    return {_mm512_maskz_mov_epi8(_cvtu64_mask64(mask), _mm512_set1_epi8(16))};
  }
  ORRERY_INLINE B lookup(Q table, B index) {
    return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), index.v)};
  }
  ORRERY_INLINE I zero_dots() { return {_mm512_setzero_si512()}; }
  ORRERY_INLINE I dot(I acc, B w, B a) { return {_mm512_dpbusd_epi32(acc.v, w.v, a.v)}; }
  // dot() with 4 bytes of memory, sixteen times. GCC loads what an operand of the instruction is.
  ORRERY_INLINE I dot_word(I acc, B w, const void* word) {
    using Word [[gnu::may_alias]] = std::uint32_t;
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(acc.v)
        : "v"(w.v), "m"(*static_cast<const Word*>(word)));
    return acc;
  }
  ORRERY_INLINE I dot_pair(I acc, B w_low, B a_low, B w_high, B a_high) {
    return dot(dot(acc, w_low, a_low), w_high, a_high);
  }
  ORRERY_INLINE I dot_signed(I acc, B w, B a) { return dot(acc, w, a); }
  ORRERY_INLINE B extend_i8(const void* p) { return {_mm512_cvtepi8_epi16(load_y(p))}; }
  ORRERY_INLINE B extend_u8(const void* p) { return {_mm512_cvtepu8_epi16(load_y(p))}; }
  ORRERY_INLINE I dot_i16(I acc, B a, B w) { return {_mm512_dpwssd_epi32(acc.v, a.v, w.v)}; }
  ORRERY_INLINE I reduce_pair(I a, I b) {
    return {_mm512_add_epi32(_mm512_unpacklo_epi32(a.v, b.v), _mm512_unpackhi_epi32(a.v, b.v))};
  }
  ORRERY_INLINE I reduce_rows(I ab, I cd) {
    return {_mm512_add_epi32(_mm512_unpacklo_epi64(ab.v, cd.v), _mm512_unpackhi_epi64(ab.v, cd.v))};
  }
  ORRERY_INLINE I group_sums32(const std::int16_t* p) {
    return spread_i(_mm_madd_epi16(load_q(p), _mm_set1_epi16(1)));
  }
  ORRERY_INLINE I group_sums16(const std::int16_t* p) {
    return spread_i(_mm_cvtepi16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  template <int n>
  ORRERY_INLINE I mul_const(I a) {
    if constexpr ((n & (n - 1)) == 0) return {_mm512_slli_epi32(a.v, __builtin_ctz(n))};
    return {_mm512_mullo_epi32(a.v, _mm512_set1_epi32(n))};
  }
  ORRERY_INLINE I bytes_to_lanes(Q a) { return {_mm512_cvtepu8_epi32(transpose_bytes(a))}; }
  ORRERY_INLINE I signed_bytes_to_lanes(Q a) { return {_mm512_cvtepi8_epi32(transpose_bytes(a))}; }
  ORRERY_INLINE F f16_low_tiled(Q a) { return _mm512_broadcast_f32x4(f16_low_q(a)); }
  ORRERY_INLINE F f16_high_tiled(Q a) { return _mm512_broadcast_f32x4(f16_high_q(a)); }

 private:
  // at[g] in the lanes of group g, `odd` more in those of rows 1 and 3.
  ORRERY_INLINE __m512i of_groups(const int (&at)[4], int odd) {
    const auto pair = [&](int g) { return std::int64_t{at[g]} | std::int64_t{at[g] + odd} << 32; };
    return _mm512_setr_epi64(pair(0), pair(0), pair(1), pair(1), pair(2), pair(2), pair(3),
                             pair(3));
  }
  ORRERY_INLINE __mmask16 lanes_below(int n) { return static_cast<__mmask16>((1U << n) - 1U); }
  ORRERY_INLINE __m256i load_y(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  ORRERY_INLINE __m512i group_index() {
    return _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  }
  ORRERY_INLINE I spread_i(__m128i a) {
    return {_mm512_permutexvar_epi32(group_index(), _mm512_castsi128_si512(a))};
  }
  ORRERY_INLINE __m256 fold(F a) {
    return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  }
  ORRERY_INLINE F widen_bf16(__m256i a) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(a), 16));
  }
  ORRERY_INLINE __m512i bf16_bits(F a) {
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    const __m512i chosen = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q),
                                                bits, _mm512_set1_epi32(0x400000));
    return _mm512_and_si512(chosen, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U)));
  }
};

}  // namespace
}  // namespace orrery::kernels
