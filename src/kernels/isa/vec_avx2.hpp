// The vocabulary on AVX2, FMA and F16C: a logical register is two ymm (definitions: vec_emu.hpp).
#pragma once

#include "kernels/isa/vec_x86.hpp"

namespace orrery::kernels {
namespace {

struct V : VQuarter {
  struct F {
    __m256 l, h;
  };  // lanes 0..7, 8..15
  struct I {
    __m256i l, h;
  };
  struct B {
    __m256i l, h;
  };  // groups 0 and 1, 2 and 3

  static constexpr int kSignedBias = 0;
  static constexpr int kMaxTile = 2;
  static constexpr int kSums = 4;
  static constexpr int kPanelRows = 16;
  static constexpr int kPanelTile = 4;
  static constexpr int kPanelPair = 0;

  // ---- floats ----
  ORRERY_INLINE F splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  ORRERY_INLINE F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  ORRERY_INLINE F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  ORRERY_INLINE F load_partial(const float* p, int n) {
    const I mask = lanes_below(n);
    // The second address must not be formed past the end of the array: it is masked out then.
    return {_mm256_maskload_ps(p, mask.l), _mm256_maskload_ps(n > 8 ? p + 8 : p, mask.h)};
  }
  ORRERY_INLINE void store(float* p, F a) {
    _mm256_storeu_ps(p, a.l);
    _mm256_storeu_ps(p + 8, a.h);
  }
  ORRERY_INLINE void store_partial(float* p, F a, int n) {
    const I mask = lanes_below(n);
    _mm256_maskstore_ps(p, mask.l, a.l);
    _mm256_maskstore_ps(n > 8 ? p + 8 : p, mask.h, a.h);
  }
  ORRERY_INLINE F load_f16(const void* p) {
    const auto* q = static_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
  }
  ORRERY_INLINE F load_f16_partial(const void* p, int n) {
    alignas(32) std::uint16_t buffer[16];
    copy_u16(buffer, p, n);
    return load_f16(buffer);
  }
  ORRERY_INLINE F load_bf16(const void* p) {
    const auto* q = static_cast<const __m128i*>(p);
    return {widen_bf16(_mm_loadu_si128(q)), widen_bf16(_mm_loadu_si128(q + 1))};
  }
  ORRERY_INLINE F load_bf16_partial(const void* p, int n) {
    alignas(32) std::uint16_t buffer[16];
    copy_u16(buffer, p, n);
    return load_bf16(buffer);
  }
  ORRERY_INLINE void store_f16(void* p, F a) {
    auto* q = static_cast<__m128i*>(p);
    _mm_storeu_si128(q, _mm256_cvtps_ph(a.l, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(q + 1, _mm256_cvtps_ph(a.h, _MM_FROUND_TO_NEAREST_INT));
  }
  ORRERY_INLINE void store_f16_partial(void* p, F a, int n) {
    alignas(32) std::uint16_t buffer[16];
    store_f16(buffer, a);
    for (int i = 0; i < n; ++i) __builtin_memcpy(static_cast<char*>(p) + 2 * i, buffer + i, 2);
  }
  ORRERY_INLINE void store_bf16(void* p, F a) {
    const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(bf16_bits(a.l), 16),
                                               _mm256_srli_epi32(bf16_bits(a.h), 16));
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xD8));
  }
  ORRERY_INLINE void store_bf16_pairs(void* p, F even, F odd) {
    auto* q = static_cast<__m256i*>(p);
    _mm256_storeu_si256(
        q, _mm256_or_si256(_mm256_srli_epi32(bf16_bits(even.l), 16), bf16_bits(odd.l)));
    _mm256_storeu_si256(
        q + 1, _mm256_or_si256(_mm256_srli_epi32(bf16_bits(even.h), 16), bf16_bits(odd.h)));
  }
  ORRERY_INLINE F round_bf16(F a) {
    return {_mm256_castsi256_ps(bf16_bits(a.l)), _mm256_castsi256_ps(bf16_bits(a.h))};
  }
  ORRERY_INLINE F add(F a, F b) { return {_mm256_add_ps(a.l, b.l), _mm256_add_ps(a.h, b.h)}; }
  ORRERY_INLINE F sub(F a, F b) { return {_mm256_sub_ps(a.l, b.l), _mm256_sub_ps(a.h, b.h)}; }
  ORRERY_INLINE F mul(F a, F b) { return {_mm256_mul_ps(a.l, b.l), _mm256_mul_ps(a.h, b.h)}; }
  ORRERY_INLINE F div(F a, F b) { return {_mm256_div_ps(a.l, b.l), _mm256_div_ps(a.h, b.h)}; }
  ORRERY_INLINE F sqrt(F a) { return {_mm256_sqrt_ps(a.l), _mm256_sqrt_ps(a.h)}; }
  ORRERY_INLINE F fma(F a, F b, F c) {
    return {_mm256_fmadd_ps(a.l, b.l, c.l), _mm256_fmadd_ps(a.h, b.h, c.h)};
  }
  ORRERY_INLINE F fnma(F a, F b, F c) {
    return {_mm256_fnmadd_ps(a.l, b.l, c.l), _mm256_fnmadd_ps(a.h, b.h, c.h)};
  }
  ORRERY_INLINE F min(F a, F b) { return {_mm256_min_ps(a.l, b.l), _mm256_min_ps(a.h, b.h)}; }
  ORRERY_INLINE F max(F a, F b) { return {_mm256_max_ps(a.l, b.l), _mm256_max_ps(a.h, b.h)}; }
  ORRERY_INLINE F abs(F a) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, a.l), _mm256_andnot_ps(sign, a.h)};
  }
  ORRERY_INLINE F neg(F a) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_xor_ps(sign, a.l), _mm256_xor_ps(sign, a.h)};
  }
  ORRERY_INLINE F copysign(F a, F s) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_or_ps(_mm256_andnot_ps(sign, a.l), _mm256_and_ps(sign, s.l)),
            _mm256_or_ps(_mm256_andnot_ps(sign, a.h), _mm256_and_ps(sign, s.h))};
  }
  ORRERY_INLINE F select_lt(F a, F b, F yes, F no) {
    return {_mm256_blendv_ps(no.l, yes.l, _mm256_cmp_ps(a.l, b.l, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.h, yes.h, _mm256_cmp_ps(a.h, b.h, _CMP_LT_OQ))};
  }
  ORRERY_INLINE F first(int n, F a, F b) {
    const I mask = lanes_below(n);
    return {_mm256_blendv_ps(b.l, a.l, _mm256_castsi256_ps(mask.l)),
            _mm256_blendv_ps(b.h, a.h, _mm256_castsi256_ps(mask.h))};
  }
  ORRERY_INLINE float sum(F a) { return sum8(_mm256_add_ps(a.l, a.h)); }
  ORRERY_INLINE float max_lane(F a) { return max8(_mm256_max_ps(a.l, a.h)); }
  ORRERY_INLINE void sum4(F a, F b, F c, F d, float* out) {
    sum4x8(_mm256_add_ps(a.l, a.h), _mm256_add_ps(b.l, b.h), _mm256_add_ps(c.l, c.h),
           _mm256_add_ps(d.l, d.h), out);
  }
  ORRERY_INLINE void sum_partials(F a, float* out) {
    const __m256 v = _mm256_add_ps(a.l, a.h);
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
  }
  ORRERY_INLINE F spread4(const float* p) {
    const __m256 v = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(p));
    return {_mm256_permutevar_ps(v, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1)),
            _mm256_permutevar_ps(v, _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3))};
  }

  ORRERY_INLINE F spread2(const float* p) {
    return {_mm256_broadcast_ss(p), _mm256_broadcast_ss(p + 1)};
  }

  // ---- integers ----
  ORRERY_INLINE I splat_i(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  ORRERY_INLINE I as_int(F a) { return {_mm256_castps_si256(a.l), _mm256_castps_si256(a.h)}; }
  ORRERY_INLINE F as_float(I a) { return {_mm256_castsi256_ps(a.l), _mm256_castsi256_ps(a.h)}; }
  ORRERY_INLINE F to_float(I a) { return {_mm256_cvtepi32_ps(a.l), _mm256_cvtepi32_ps(a.h)}; }
  ORRERY_INLINE I round_int(F a) {
    return sub_i(as_int(add(a, splat(0x1.8p23F))), splat_i(0x4B400000));
  }
  ORRERY_INLINE I add_i(I a, I b) {
    return {_mm256_add_epi32(a.l, b.l), _mm256_add_epi32(a.h, b.h)};
  }
  ORRERY_INLINE I sub_i(I a, I b) {
    return {_mm256_sub_epi32(a.l, b.l), _mm256_sub_epi32(a.h, b.h)};
  }
  ORRERY_INLINE I and_i(I a, I b) {
    return {_mm256_and_si256(a.l, b.l), _mm256_and_si256(a.h, b.h)};
  }
  ORRERY_INLINE I or_i(I a, I b) { return {_mm256_or_si256(a.l, b.l), _mm256_or_si256(a.h, b.h)}; }
  template <int n>
  ORRERY_INLINE I shl(I a) {
    return {_mm256_slli_epi32(a.l, n), _mm256_slli_epi32(a.h, n)};
  }
  template <int n>
  ORRERY_INLINE I shr(I a) {
    return {_mm256_srli_epi32(a.l, n), _mm256_srli_epi32(a.h, n)};
  }
  ORRERY_INLINE I select_lt_i(I a, I b, I yes, I no) {
    return {_mm256_blendv_epi8(no.l, yes.l, _mm256_cmpgt_epi32(b.l, a.l)),
            _mm256_blendv_epi8(no.h, yes.h, _mm256_cmpgt_epi32(b.h, a.h))};
  }
  ORRERY_INLINE void store_i8(std::int8_t* p, I a) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.l, a.h), 0xD8);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(p),
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
  ORRERY_INLINE void store_i16(std::int16_t* p, I a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_permute4x64_epi64(_mm256_packs_epi32(a.l, a.h), 0xD8));
  }
  ORRERY_INLINE std::int32_t sum_i(I a) {
    const __m256i v = _mm256_add_epi32(a.l, a.h);
    __m128i w = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    w = _mm_add_epi32(w, _mm_shuffle_epi32(w, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(w, _mm_shuffle_epi32(w, 0xB1)));
  }
  // Gathers are slow on many of these processors.
  template <int stride>
  ORRERY_INLINE I headers(const std::uint8_t* const (&w)[4]) {
    return {join(column(w, 0), column(w, stride)),
            join(column(w, 2 * stride), column(w, 3 * stride))};
  }
  template <int stride>
  ORRERY_INLINE F f16_headers(const std::uint8_t* const (&w)[4]) {
    return f16_low(headers<stride>(w));
  }
  template <int stride>
  ORRERY_INLINE void f16_pair_headers(const std::uint8_t* const (&w)[4], F& low, F& high) {
    const I words = headers<stride>(w);
    low = f16_low(words);
    high = f16_high(words);
  }
  ORRERY_INLINE F f16_low(I a) { return {f16_low8(a.l), f16_low8(a.h)}; }
  ORRERY_INLINE F f16_high(I a) { return f16_low(shr<16>(a)); }

  // ---- bytes ----
  ORRERY_INLINE B splat_b(int x) {
    const __m256i v = _mm256_set1_epi8(static_cast<char>(x));
    return {v, v};
  }
  ORRERY_INLINE B load_b(const void* p) {
    const auto* q = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
  }
  ORRERY_INLINE void store_b(void* p, B a) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), a.l);
    _mm256_storeu_si256(static_cast<__m256i*>(p) + 1, a.h);
  }
  ORRERY_INLINE B load_4x16(const std::uint8_t* p, std::size_t stride) {
    return {join(load_q(p), load_q(p + stride)),
            join(load_q(p + 2 * stride), load_q(p + 3 * stride))};
  }
  ORRERY_INLINE B repeat_word(const void* p) {
    const __m256i v = _mm256_set1_epi32(static_cast<int>(load_u32(p)));
    return {v, v};
  }
  ORRERY_INLINE void transpose_words(B& a, B& b, B& c, B& d) {
    transpose_words(a.l, b.l, c.l, d.l);
    transpose_words(a.h, b.h, c.h, d.h);
  }
  ORRERY_INLINE void transpose_groups(B& a, B& b, B& c, B& d) {
    const B in[4] = {a, b, c, d};
    const auto join = [](__m256i x, __m256i y, __m256i& low, __m256i& high) {
      low = _mm256_permute2x128_si256(x, y, 0x20);
      high = _mm256_permute2x128_si256(x, y, 0x31);
    };
    join(in[0].l, in[1].l, a.l, b.l);
    join(in[2].l, in[3].l, a.h, b.h);
    join(in[0].h, in[1].h, c.l, d.l);
    join(in[2].h, in[3].h, c.h, d.h);
  }
  ORRERY_INLINE void store_groups(void* p, std::size_t stride, B a) {
    auto* to = static_cast<std::uint8_t*>(p);
    const auto put = [&](std::size_t group, __m128i v) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + group * stride), v);
    };
    put(0, _mm256_castsi256_si128(a.l));
    put(1, _mm256_extracti128_si256(a.l, 1));
    put(2, _mm256_castsi256_si128(a.h));
    put(3, _mm256_extracti128_si256(a.h, 1));
  }
  ORRERY_INLINE B as_bytes(F a) { return {_mm256_castps_si256(a.l), _mm256_castps_si256(a.h)}; }
  ORRERY_INLINE B load_2x32(const std::uint8_t* p, std::size_t stride) {
    const auto load = [](const std::uint8_t* q) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q));
    };
    return {load(p), load(p + stride)};
  }
  ORRERY_INLINE B load_2x32(const std::uint8_t* p) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {v, v};
  }
  ORRERY_INLINE B repeat_q(Q a) {
    const __m256i v = _mm256_broadcastsi128_si256(a);
    return {v, v};
  }
  ORRERY_INLINE B load_4x8_twice(const std::uint8_t* p) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm256_permute4x64_epi64(v, 0x50), _mm256_permute4x64_epi64(v, 0xFA)};
  }
  ORRERY_INLINE void split_halves(const std::int8_t* p, B& low, B& high) {
    const B ab = load_b(p), cd = load_b(p + 64);
    low = {_mm256_permute2x128_si256(ab.l, ab.h, 0x20),
           _mm256_permute2x128_si256(cd.l, cd.h, 0x20)};
    high = {_mm256_permute2x128_si256(ab.l, ab.h, 0x31),
            _mm256_permute2x128_si256(cd.l, cd.h, 0x31)};
  }
  ORRERY_INLINE void split_nibbles_k(B a, B& low, B& high) {
    const B even = low_nibbles(a), odd = high_nibbles(a);
    low = {_mm256_permute2x128_si256(even.l, odd.l, 0x20),
           _mm256_permute2x128_si256(even.h, odd.h, 0x20)};
    high = {_mm256_permute2x128_si256(even.l, odd.l, 0x31),
            _mm256_permute2x128_si256(even.h, odd.h, 0x31)};
  }
  ORRERY_INLINE B and_b(B a, B b) {
    return {_mm256_and_si256(a.l, b.l), _mm256_and_si256(a.h, b.h)};
  }
  ORRERY_INLINE B or_b(B a, B b) { return {_mm256_or_si256(a.l, b.l), _mm256_or_si256(a.h, b.h)}; }
  ORRERY_INLINE B xor_b(B a, B b) {
    return {_mm256_xor_si256(a.l, b.l), _mm256_xor_si256(a.h, b.h)};
  }
  ORRERY_INLINE B group_bytes(int a, int b, int c, int d) {
    return {join(_mm_set1_epi8(static_cast<char>(a)), _mm_set1_epi8(static_cast<char>(b))),
            join(_mm_set1_epi8(static_cast<char>(c)), _mm_set1_epi8(static_cast<char>(d)))};
  }
  ORRERY_INLINE B signed_codes(B a) { return a; }
  ORRERY_INLINE B low_nibbles(B a) { return and_b(a, splat_b(15)); }
  ORRERY_INLINE B high_nibbles(B a) {
    return and_b({_mm256_srli_epi16(a.l, 4), _mm256_srli_epi16(a.h, 4)}, splat_b(15));
  }
  template <int low, int high, int mask>
  ORRERY_INLINE B shift_halves(B a) {
    return and_b({_mm256_srli_epi16(a.l, low), _mm256_srli_epi16(a.h, high)}, splat_b(mask));
  }
  ORRERY_INLINE B nibble_halves(B a) {
    const __m256i shift = _mm256_setr_epi64x(0, 4, 0, 4);
    return and_b({_mm256_srlv_epi64(a.l, shift), _mm256_srlv_epi64(a.h, shift)}, splat_b(15));
  }
  template <int n>
  ORRERY_INLINE B shl_b(B a) {
    return and_b({_mm256_slli_epi16(a.l, n), _mm256_slli_epi16(a.h, n)}, splat_b(0xFF << n & 0xFF));
  }
  template <int value>
  ORRERY_INLINE B where_bits(B a, B mask) {
    const __m256i none = _mm256_setzero_si256();
    const B clear = {_mm256_cmpeq_epi8(_mm256_and_si256(a.l, mask.l), none),
                     _mm256_cmpeq_epi8(_mm256_and_si256(a.h, mask.h), none)};
    const __m256i v = _mm256_set1_epi8(value);
    return {_mm256_andnot_si256(clear.l, v), _mm256_andnot_si256(clear.h, v)};
  }
  template <bool upper>
  ORRERY_INLINE B fifth_bits(const std::uint8_t* p, std::size_t stride) {
    const __m256i words = _mm256_setr_epi64x(static_cast<long long>(load_u32(p)),
                                             static_cast<long long>(load_u32(p + stride)),
                                             static_cast<long long>(load_u32(p + 2 * stride)),
                                             static_cast<long long>(load_u32(p + 3 * stride)));
    constexpr char b = upper ? 2 : 0, c = upper ? 3 : 1;
    // Byte b or c of the two words of each half.
    const __m256i pick = _mm256_setr_epi8(b, b, b, b, b, b, b, b, c, c, c, c, c, c, c, c, b + 8,
                                          b + 8, b + 8, b + 8, b + 8, b + 8, b + 8, b + 8, c + 8,
                                          c + 8, c + 8, c + 8, c + 8, c + 8, c + 8, c + 8);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
    const B bytes = {_mm256_shuffle_epi8(_mm256_permute4x64_epi64(words, 0x44), pick),
                     _mm256_shuffle_epi8(_mm256_permute4x64_epi64(words, 0xEE), pick)};
    return where_bits<16>(bytes, {bit, bit});
  }
  ORRERY_INLINE B lookup(Q table, B index) {
    const __m256i t = _mm256_broadcastsi128_si256(table);
    return {_mm256_shuffle_epi8(t, index.l), _mm256_shuffle_epi8(t, index.h)};
  }
  ORRERY_INLINE I zero_dots() { return splat_i(0); }
  ORRERY_INLINE I dot(I acc, B w, B a) {
    return {_mm256_add_epi32(acc.l, dot32(w.l, a.l)), _mm256_add_epi32(acc.h, dot32(w.h, a.h))};
  }
  ORRERY_INLINE I dot_pair(I acc, B w_low, B a_low, B w_high, B a_high) {
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i l = _mm256_add_epi16(_mm256_maddubs_epi16(w_low.l, a_low.l),
                                       _mm256_maddubs_epi16(w_high.l, a_high.l));
    const __m256i h = _mm256_add_epi16(_mm256_maddubs_epi16(w_low.h, a_low.h),
                                       _mm256_maddubs_epi16(w_high.h, a_high.h));
    return {_mm256_add_epi32(acc.l, _mm256_madd_epi16(l, ones)),
            _mm256_add_epi32(acc.h, _mm256_madd_epi16(h, ones))};
  }
  ORRERY_INLINE I dot_signed(I acc, B w, B a) {
    const B size = {_mm256_abs_epi8(w.l), _mm256_abs_epi8(w.h)};
    const B moved = {_mm256_sign_epi8(a.l, w.l), _mm256_sign_epi8(a.h, w.h)};
    return dot(acc, size, moved);
  }
  ORRERY_INLINE B extend_i8(const void* p) {
    const auto* q = static_cast<const __m128i*>(p);
    return {_mm256_cvtepi8_epi16(_mm_loadu_si128(q)), _mm256_cvtepi8_epi16(_mm_loadu_si128(q + 1))};
  }
  ORRERY_INLINE B extend_u8(const void* p) {
    const auto* q = static_cast<const __m128i*>(p);
    return {_mm256_cvtepu8_epi16(_mm_loadu_si128(q)), _mm256_cvtepu8_epi16(_mm_loadu_si128(q + 1))};
  }
  ORRERY_INLINE I dot_i16(I acc, B a, B w) {
    return {_mm256_add_epi32(acc.l, _mm256_madd_epi16(a.l, w.l)),
            _mm256_add_epi32(acc.h, _mm256_madd_epi16(a.h, w.h))};
  }
  ORRERY_INLINE I reduce_pair(I a, I b) { return {pair32(a.l, b.l), pair32(a.h, b.h)}; }
  ORRERY_INLINE I reduce_rows(I ab, I cd) { return {rows32(ab.l, cd.l), rows32(ab.h, cd.h)}; }
  ORRERY_INLINE I group_sums32(const std::int16_t* p) {
    return spread_i(_mm_madd_epi16(load_q(p), _mm_set1_epi16(1)));
  }
  ORRERY_INLINE I group_sums16(const std::int16_t* p) {
    return spread_i(_mm_cvtepi16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  template <int n>
  ORRERY_INLINE I mul_const(I a) {
    const __m256i v = _mm256_set1_epi32(n);
    return {_mm256_mullo_epi32(a.l, v), _mm256_mullo_epi32(a.h, v)};
  }
  ORRERY_INLINE I bytes_to_lanes(Q a) {
    const Q t = transpose_bytes(a);
    return {_mm256_cvtepu8_epi32(t), _mm256_cvtepu8_epi32(_mm_srli_si128(t, 8))};
  }
  ORRERY_INLINE I signed_bytes_to_lanes(Q a) {
    const Q t = transpose_bytes(a);
    return {_mm256_cvtepi8_epi32(t), _mm256_cvtepi8_epi32(_mm_srli_si128(t, 8))};
  }
  ORRERY_INLINE F f16_low_tiled(Q a) {
    const __m256 v = repeat_ps(f16_low_q(a));
    return {v, v};
  }
  ORRERY_INLINE F f16_high_tiled(Q a) {
    const __m256 v = repeat_ps(f16_high_q(a));
    return {v, v};
  }

 private:
  ORRERY_INLINE Q column(const std::uint8_t* const (&w)[4], int at) {
    return from_u32(load_u32(w[0] + at), load_u32(w[1] + at), load_u32(w[2] + at),
                    load_u32(w[3] + at));
  }
  ORRERY_INLINE __m256 repeat_ps(__m128 a) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(a), a, 1);
  }
  ORRERY_INLINE I lanes_below(int n) {
    const __m256i count = _mm256_set1_epi32(n);
    return {_mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
            _mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
  }
  ORRERY_INLINE void copy_u16(std::uint16_t* to, const void* p, int n) {
    for (int i = 0; i < 16; ++i) to[i] = i < n ? load_u16(static_cast<const char*>(p) + 2 * i) : 0;
  }
  ORRERY_INLINE __m256 widen_bf16(__m128i a) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(a), 16));
  }
  // The bf16 in the upper half of each lane, the lower half zero.
  ORRERY_INLINE __m256i bf16_bits(__m256 a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 is_nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    const __m256i chosen = _mm256_castps_si256(
        _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), is_nan));
    return _mm256_and_si256(chosen, _mm256_set1_epi32(static_cast<int>(0xFFFF0000U)));
  }
  ORRERY_INLINE __m256 f16_low8(__m256i a) {
    const __m256i low = _mm256_and_si256(a, _mm256_set1_epi32(0xFFFF));
    const __m256i packed = _mm256_packus_epi32(low, low);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0xD8)));
  }
  ORRERY_INLINE __m256i join(__m128i a, __m128i b) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
  }
  ORRERY_INLINE void transpose_words(__m256i& a, __m256i& b, __m256i& c, __m256i& d) {
    const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
    a = _mm256_unpacklo_epi64(ab0, cd0);
    b = _mm256_unpackhi_epi64(ab0, cd0);
    c = _mm256_unpacklo_epi64(ab1, cd1);
    d = _mm256_unpackhi_epi64(ab1, cd1);
  }
  ORRERY_INLINE __m256i dot32(__m256i w, __m256i a) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(w, a), _mm256_set1_epi16(1));
  }
  ORRERY_INLINE __m256i pair32(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  }
  ORRERY_INLINE __m256i rows32(__m256i ab, __m256i cd) {
    return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  }
  ORRERY_INLINE I spread_i(__m128i a) {
    const __m256i v = _mm256_broadcastsi128_si256(a);
    return {_mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1)),
            _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3))};
  }
};

}  // namespace
}  // namespace orrery::kernels
