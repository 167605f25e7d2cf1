// The vocabulary on AArch64 NEON with dot products: four q registers (definitions: vec_emu.hpp).
#pragma once

#include <arm_neon.h>

#include "kernels/isa/vec_base.hpp"

namespace orrery::kernels {
namespace {

struct V {
  using Q = uint8x16_t;
  struct F {
    float32x4_t v[4];
  };
  struct I {
    int32x4_t v[4];
  };
  struct B {
    uint8x16_t v[4];  // one group each
  };

  static constexpr int kSignedBias = 0;
  static constexpr int kMaxTile = 2;
  static constexpr int kSums = 8;
  static constexpr int kPanelRows = 16;
  static constexpr int kPanelTile = 4;
  static constexpr int kPanelPair = 0;

  template <class T, class Op>
  ORRERY_INLINE T each(Op op) {
    return {{op(0), op(1), op(2), op(3)}};
  }

  // ---- floats ----
  ORRERY_INLINE F splat(float x) {
    return each<F>([&](int) { return vdupq_n_f32(x); });
  }
  ORRERY_INLINE F zero() { return splat(0.0F); }
  ORRERY_INLINE F load(const float* p) {
    return each<F>([&](int g) { return vld1q_f32(p + 4 * g); });
  }
  ORRERY_INLINE F load_partial(const float* p, int n) {
    float buffer[16] = {};
    for (int i = 0; i < n; ++i) buffer[i] = p[i];
    return load(buffer);
  }
  ORRERY_INLINE void store(float* p, F a) {
    for (int g = 0; g < 4; ++g) vst1q_f32(p + 4 * g, a.v[g]);
  }
  ORRERY_INLINE void store_partial(float* p, F a, int n) {
    float buffer[16];
    store(buffer, a);
    for (int i = 0; i < n; ++i) p[i] = buffer[i];
  }
  ORRERY_INLINE F load_f16(const void* p) {
    const auto* q = static_cast<const std::uint8_t*>(p);
    return each<F>([&](int g) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(q + 8 * g))); });
  }
  ORRERY_INLINE F load_f16_partial(const void* p, int n) {
    std::uint16_t buffer[16];
    copy_u16(buffer, p, n);
    return load_f16(buffer);
  }
  ORRERY_INLINE F load_bf16(const void* p) {
    const auto* q = static_cast<const std::uint8_t*>(p);
    return each<F>([&](int g) {
      return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(q + 8 * g)), 16));
    });
  }
  ORRERY_INLINE F load_bf16_partial(const void* p, int n) {
    std::uint16_t buffer[16];
    copy_u16(buffer, p, n);
    return load_bf16(buffer);
  }
  ORRERY_INLINE void store_f16(void* p, F a) {
    auto* q = static_cast<std::uint8_t*>(p);
    for (int g = 0; g < 4; ++g) vst1_u8(q + 8 * g, vreinterpret_u8_f16(vcvt_f16_f32(a.v[g])));
  }
  ORRERY_INLINE void store_f16_partial(void* p, F a, int n) {
    std::uint16_t buffer[16];
    store_f16(buffer, a);
    for (int i = 0; i < n; ++i) __builtin_memcpy(static_cast<char*>(p) + 2 * i, buffer + i, 2);
  }
  ORRERY_INLINE void store_bf16(void* p, F a) {
    auto* q = static_cast<std::uint8_t*>(p);
    for (int g = 0; g < 4; ++g)
      vst1_u8(q + 8 * g, vreinterpret_u8_u16(vshrn_n_u32(bf16_bits(a.v[g]), 16)));
  }
  ORRERY_INLINE void store_bf16_pairs(void* p, F even, F odd) {
    auto* q = static_cast<std::uint8_t*>(p);
    for (int g = 0; g < 4; ++g) {
      const uint32x4_t low = vshrq_n_u32(bf16_bits(even.v[g]), 16);
      vst1q_u8(q + 16 * g, vreinterpretq_u8_u32(vorrq_u32(low, bf16_bits(odd.v[g]))));
    }
  }
  ORRERY_INLINE F round_bf16(F a) {
    return each<F>([&](int g) { return vreinterpretq_f32_u32(bf16_bits(a.v[g])); });
  }
  ORRERY_INLINE F add(F a, F b) {
    return each<F>([&](int g) { return vaddq_f32(a.v[g], b.v[g]); });
  }
  ORRERY_INLINE F sub(F a, F b) {
    return each<F>([&](int g) { return vsubq_f32(a.v[g], b.v[g]); });
  }
  ORRERY_INLINE F mul(F a, F b) {
    return each<F>([&](int g) { return vmulq_f32(a.v[g], b.v[g]); });
  }
  ORRERY_INLINE F div(F a, F b) {
    return each<F>([&](int g) { return vdivq_f32(a.v[g], b.v[g]); });
  }
  ORRERY_INLINE F sqrt(F a) {
    return each<F>([&](int g) { return vsqrtq_f32(a.v[g]); });
  }
  ORRERY_INLINE F fma(F a, F b, F c) {
    return each<F>([&](int g) { return vfmaq_f32(c.v[g], a.v[g], b.v[g]); });
  }
  ORRERY_INLINE F fnma(F a, F b, F c) {
    return each<F>([&](int g) { return vfmsq_f32(c.v[g], a.v[g], b.v[g]); });
  }
  ORRERY_INLINE F min(F a, F b) { return select_lt(a, b, a, b); }
  ORRERY_INLINE F max(F a, F b) { return select_lt(b, a, a, b); }
  ORRERY_INLINE F abs(F a) {
    return each<F>([&](int g) { return vabsq_f32(a.v[g]); });
  }
  ORRERY_INLINE F neg(F a) {
    return each<F>([&](int g) { return vnegq_f32(a.v[g]); });
  }
  ORRERY_INLINE F copysign(F a, F s) {
    const uint32x4_t sign = vdupq_n_u32(0x80000000U);
    return each<F>([&](int g) { return vbslq_f32(sign, s.v[g], a.v[g]); });
  }
  ORRERY_INLINE F select_lt(F a, F b, F yes, F no) {
    return each<F>([&](int g) { return vbslq_f32(vcltq_f32(a.v[g], b.v[g]), yes.v[g], no.v[g]); });
  }
  ORRERY_INLINE F first(int n, F a, F b) {
    return each<F>([&](int g) {
      const std::int32_t lanes[4] = {0, 1, 2, 3};
      const uint32x4_t below = vcltq_s32(vld1q_s32(lanes), vdupq_n_s32(n - 4 * g));
      return vbslq_f32(below, a.v[g], b.v[g]);
    });
  }
  ORRERY_INLINE float sum(F a) {
    const float32x4_t v = fold(a);
    const float32x2_t pair = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(pair, 0) + vget_lane_f32(pair, 1);
  }
  ORRERY_INLINE float max_lane(F a) {
    const F eight = max(a, {{a.v[2], a.v[3], a.v[2], a.v[3]}});
    const F four = max(eight, {{eight.v[1], eight.v[1], eight.v[1], eight.v[1]}});
    float lanes[4];
    vst1q_f32(lanes, four.v[0]);
    const float even = lanes[0] > lanes[2] ? lanes[0] : lanes[2];
    const float odd = lanes[1] > lanes[3] ? lanes[1] : lanes[3];
    return even > odd ? even : odd;
  }
  ORRERY_INLINE void sum4(F a, F b, F c, F d, float* out) {
    out[0] = sum(a), out[1] = sum(b), out[2] = sum(c), out[3] = sum(d);
  }
  ORRERY_INLINE void sum_partials(F a, float* out) { vst1q_f32(out, fold(a)); }
  ORRERY_INLINE F spread4(const float* p) {
    return each<F>([&](int g) { return vdupq_n_f32(p[g]); });
  }
  ORRERY_INLINE F spread2(const float* p) {
    return each<F>([&](int g) { return vdupq_n_f32(p[g / 2]); });
  }

  // ---- integers ----
  ORRERY_INLINE I splat_i(std::int32_t x) {
    return each<I>([&](int) { return vdupq_n_s32(x); });
  }
  ORRERY_INLINE I as_int(F a) {
    return each<I>([&](int g) { return vreinterpretq_s32_f32(a.v[g]); });
  }
  ORRERY_INLINE F as_float(I a) {
    return each<F>([&](int g) { return vreinterpretq_f32_s32(a.v[g]); });
  }
  ORRERY_INLINE F to_float(I a) {
    return each<F>([&](int g) { return vcvtq_f32_s32(a.v[g]); });
  }
  ORRERY_INLINE I round_int(F a) {
    return sub_i(as_int(add(a, splat(0x1.8p23F))), splat_i(0x4B400000));
  }
  ORRERY_INLINE I add_i(I a, I b) {
    return each<I>([&](int g) { return vaddq_s32(a.v[g], b.v[g]); });
  }
  ORRERY_INLINE I sub_i(I a, I b) {
    return each<I>([&](int g) { return vsubq_s32(a.v[g], b.v[g]); });
  }
  ORRERY_INLINE I and_i(I a, I b) {
    return each<I>([&](int g) { return vandq_s32(a.v[g], b.v[g]); });
  }
  ORRERY_INLINE I or_i(I a, I b) {
    return each<I>([&](int g) { return vorrq_s32(a.v[g], b.v[g]); });
  }
  template <int n>
  ORRERY_INLINE I shl(I a) {
    return each<I>([&](int g) { return vshlq_n_s32(a.v[g], n); });
  }
  template <int n>
  ORRERY_INLINE I shr(I a) {
    return each<I>([&](int g) {
      return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a.v[g]), n));
    });
  }
  ORRERY_INLINE I select_lt_i(I a, I b, I yes, I no) {
    return each<I>([&](int g) { return vbslq_s32(vcltq_s32(a.v[g], b.v[g]), yes.v[g], no.v[g]); });
  }
  ORRERY_INLINE void store_i8(std::int8_t* p, I a) {
    const int16x8_t low = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
    vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
  }
  ORRERY_INLINE void store_i16(std::int16_t* p, I a) {
    vst1q_s16(p, vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1])));
    vst1q_s16(p + 8, vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3])));
  }
  ORRERY_INLINE std::int32_t sum_i(I a) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(a.v[0], a.v[1]), vaddq_s32(a.v[2], a.v[3])));
  }
  template <int stride>
  ORRERY_INLINE I headers(const std::uint8_t* const (&w)[4]) {
    return each<I>([&](int g) {
      const int at = g * stride;
      return vreinterpretq_s32_u8(from_u32(load_u32(w[0] + at), load_u32(w[1] + at),
                                           load_u32(w[2] + at), load_u32(w[3] + at)));
    });
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
  ORRERY_INLINE F f16_low(I a) {
    return each<F>([&](int g) { return f16_lanes(vreinterpretq_u32_s32(a.v[g])); });
  }
  ORRERY_INLINE F f16_high(I a) { return f16_low(shr<16>(a)); }

  // ---- bytes ----
  ORRERY_INLINE B splat_b(int x) {
    return each<B>([&](int) { return vdupq_n_u8(static_cast<std::uint8_t>(x)); });
  }
  ORRERY_INLINE B load_b(const void* p) {
    const auto* q = static_cast<const std::uint8_t*>(p);
    return each<B>([&](int g) { return vld1q_u8(q + 16 * g); });
  }
  ORRERY_INLINE void store_b(void* p, B a) {
    for (int g = 0; g < 4; ++g) vst1q_u8(static_cast<std::uint8_t*>(p) + 16 * g, a.v[g]);
  }
  ORRERY_INLINE B load_4x16(const std::uint8_t* p, std::size_t stride) {
    return each<B>([&](int g) { return vld1q_u8(p + static_cast<std::size_t>(g) * stride); });
  }
  ORRERY_INLINE B load_2x32(const std::uint8_t* p, std::size_t stride) {
    return {{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + stride), vld1q_u8(p + stride + 16)}};
  }
  ORRERY_INLINE B load_2x32(const std::uint8_t* p) {
    return each<B>([&](int g) { return vld1q_u8(p + g % 2 * 16); });
  }
  ORRERY_INLINE B repeat_q(Q a) {
    return each<B>([&](int) { return a; });
  }
  ORRERY_INLINE B repeat_word(const void* p) {
    const uint8x16_t v = vreinterpretq_u8_u32(vdupq_n_u32(load_u32(p)));
    return each<B>([&](int) { return v; });
  }
  ORRERY_INLINE void transpose_words(B& a, B& b, B& c, B& d) {
    for (int g = 0; g < 4; ++g) transpose_q(a.v[g], b.v[g], c.v[g], d.v[g]);
  }
  ORRERY_INLINE void transpose_groups(B& a, B& b, B& c, B& d) {
    const B in[4] = {a, b, c, d};
    a = each<B>([&](int g) { return in[g].v[0]; });
    b = each<B>([&](int g) { return in[g].v[1]; });
    c = each<B>([&](int g) { return in[g].v[2]; });
    d = each<B>([&](int g) { return in[g].v[3]; });
  }
  ORRERY_INLINE void store_groups(void* p, std::size_t stride, B a) {
    auto* to = static_cast<std::uint8_t*>(p);
    for (int g = 0; g < 4; ++g) vst1q_u8(to + static_cast<std::size_t>(g) * stride, a.v[g]);
  }
  ORRERY_INLINE B as_bytes(F a) {
    return each<B>([&](int g) { return vreinterpretq_u8_f32(a.v[g]); });
  }
  ORRERY_INLINE B load_4x8_twice(const std::uint8_t* p) {
    return each<B>([&](int g) {
      const uint8x8_t half = vld1_u8(p + 8 * g);
      return vcombine_u8(half, half);
    });
  }
  ORRERY_INLINE void split_halves(const std::int8_t* p, B& low, B& high) {
    const auto* q = reinterpret_cast<const std::uint8_t*>(p);
    low = load_4x16(q, 32);
    high = load_4x16(q + 16, 32);
  }
  ORRERY_INLINE void split_nibbles_k(B a, B& low, B& high) {
    const B even = low_nibbles(a), odd = high_nibbles(a);
    low = {{even.v[0], odd.v[0], even.v[2], odd.v[2]}};
    high = {{even.v[1], odd.v[1], even.v[3], odd.v[3]}};
  }
  ORRERY_INLINE B and_b(B a, B b) {
    return each<B>([&](int g) { return vandq_u8(a.v[g], b.v[g]); });
  }
  ORRERY_INLINE B or_b(B a, B b) {
    return each<B>([&](int g) { return vorrq_u8(a.v[g], b.v[g]); });
  }
  ORRERY_INLINE B xor_b(B a, B b) {
    return each<B>([&](int g) { return veorq_u8(a.v[g], b.v[g]); });
  }
  ORRERY_INLINE B group_bytes(int a, int b, int c, int d) {
    const int all[4] = {a, b, c, d};
    return each<B>([&](int g) { return vdupq_n_u8(static_cast<std::uint8_t>(all[g])); });
  }
  ORRERY_INLINE B signed_codes(B a) { return a; }
  ORRERY_INLINE B low_nibbles(B a) { return and_b(a, splat_b(15)); }
  ORRERY_INLINE B high_nibbles(B a) {
    return each<B>([&](int g) { return vshrq_n_u8(a.v[g], 4); });
  }
  template <int low, int high, int mask>
  ORRERY_INLINE B shift_halves(B a) {
    return each<B>([&](int g) {
      const int8x16_t left = vdupq_n_s8(static_cast<std::int8_t>(g < 2 ? -low : -high));
      return vandq_u8(vshlq_u8(a.v[g], left), vdupq_n_u8(mask));
    });
  }
  ORRERY_INLINE B nibble_halves(B a) {
    const int8x16_t left = vcombine_s8(vdup_n_s8(0), vdup_n_s8(-4));
    return each<B>([&](int g) { return vandq_u8(vshlq_u8(a.v[g], left), vdupq_n_u8(15)); });
  }
  template <int n>
  ORRERY_INLINE B shl_b(B a) {
    return each<B>([&](int g) { return vshlq_n_u8(a.v[g], n); });
  }
  template <int value>
  ORRERY_INLINE B where_bits(B a, B mask) {
    return each<B>([&](int g) { return vandq_u8(vtstq_u8(a.v[g], mask.v[g]), vdupq_n_u8(value)); });
  }
  template <bool upper>
  ORRERY_INLINE B fifth_bits(const std::uint8_t* p, std::size_t stride) {
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ULL));
    return each<B>([&](int g) {
      const std::uint8_t* q = p + static_cast<std::size_t>(g) * stride + (upper ? 2 : 0);
      const uint8x16_t bytes = vcombine_u8(vdup_n_u8(q[0]), vdup_n_u8(q[1]));
      return vandq_u8(vtstq_u8(bytes, bit), vdupq_n_u8(16));
    });
  }
  ORRERY_INLINE B lookup(Q table, B index) {
    return each<B>([&](int g) { return vqtbl1q_u8(table, index.v[g]); });
  }
  ORRERY_INLINE I zero_dots() { return splat_i(0); }
  ORRERY_INLINE I dot(I acc, B w, B a) {
    return each<I>([&](int g) {
      return vdotq_s32(acc.v[g], vreinterpretq_s8_u8(w.v[g]), vreinterpretq_s8_u8(a.v[g]));
    });
  }
  ORRERY_INLINE I dot_pair(I acc, B w_low, B a_low, B w_high, B a_high) {
    return dot(dot(acc, w_low, a_low), w_high, a_high);
  }
  ORRERY_INLINE I dot_signed(I acc, B w, B a) { return dot(acc, w, a); }
  ORRERY_INLINE B extend_i8(const void* p) {
    const auto* q = static_cast<const std::int8_t*>(p);
    return each<B>([&](int g) { return vreinterpretq_u8_s16(vmovl_s8(vld1_s8(q + 8 * g))); });
  }
  ORRERY_INLINE B extend_u8(const void* p) {
    const auto* q = static_cast<const std::uint8_t*>(p);
    return each<B>([&](int g) { return vreinterpretq_u8_u16(vmovl_u8(vld1_u8(q + 8 * g))); });
  }
  ORRERY_INLINE I dot_i16(I acc, B a, B w) {
    return each<I>([&](int g) {
      const int16x8_t x = vreinterpretq_s16_u8(a.v[g]), y = vreinterpretq_s16_u8(w.v[g]);
      const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
      return vaddq_s32(acc.v[g], vpaddq_s32(low, vmull_high_s16(x, y)));
    });
  }
  ORRERY_INLINE I reduce_pair(I a, I b) {
    return each<I>(
        [&](int g) { return vaddq_s32(vzip1q_s32(a.v[g], b.v[g]), vzip2q_s32(a.v[g], b.v[g])); });
  }
  ORRERY_INLINE I reduce_rows(I ab, I cd) {
    return each<I>([&](int g) {
      const int64x2_t x = vreinterpretq_s64_s32(ab.v[g]), y = vreinterpretq_s64_s32(cd.v[g]);
      return vaddq_s32(vreinterpretq_s32_s64(vzip1q_s64(x, y)),
                       vreinterpretq_s32_s64(vzip2q_s64(x, y)));
    });
  }
  ORRERY_INLINE I group_sums32(const std::int16_t* p) {
    return each<I>([&](int g) { return vdupq_n_s32(p[2 * g] + p[2 * g + 1]); });
  }
  ORRERY_INLINE I group_sums16(const std::int16_t* p) {
    return each<I>([&](int g) { return vdupq_n_s32(p[g]); });
  }
  template <int n>
  ORRERY_INLINE I mul_const(I a) {
    return each<I>([&](int g) { return vmulq_n_s32(a.v[g], n); });
  }

  // ---- quarters ----
  ORRERY_INLINE Q load_q(const void* p) { return vld1q_u8(static_cast<const std::uint8_t*>(p)); }
  ORRERY_INLINE Q splat_q32(std::uint32_t x) { return vreinterpretq_u8_u32(vdupq_n_u32(x)); }
  ORRERY_INLINE Q from_u32(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    const std::uint32_t all[4] = {a, b, c, d};
    return vreinterpretq_u8_u32(vld1q_u32(all));
  }
  ORRERY_INLINE void transpose_q(Q& a, Q& b, Q& c, Q& d) {
    const uint32x4_t x = vreinterpretq_u32_u8(a), y = vreinterpretq_u32_u8(b);
    const uint32x4_t z = vreinterpretq_u32_u8(c), w = vreinterpretq_u32_u8(d);
    const uint64x2_t xy0 = vreinterpretq_u64_u32(vzip1q_u32(x, y));
    const uint64x2_t xy1 = vreinterpretq_u64_u32(vzip2q_u32(x, y));
    const uint64x2_t zw0 = vreinterpretq_u64_u32(vzip1q_u32(z, w));
    const uint64x2_t zw1 = vreinterpretq_u64_u32(vzip2q_u32(z, w));
    a = vreinterpretq_u8_u64(vzip1q_u64(xy0, zw0));
    b = vreinterpretq_u8_u64(vzip2q_u64(xy0, zw0));
    c = vreinterpretq_u8_u64(vzip1q_u64(xy1, zw1));
    d = vreinterpretq_u8_u64(vzip2q_u64(xy1, zw1));
  }
  ORRERY_INLINE Q and_q(Q a, Q b) { return vandq_u8(a, b); }
  ORRERY_INLINE Q or_q(Q a, Q b) { return vorrq_u8(a, b); }
  template <int n>
  ORRERY_INLINE Q shr_q(Q a) {
    return vreinterpretq_u8_u32(vshrq_n_u32(vreinterpretq_u32_u8(a), n));
  }
  template <int n>
  ORRERY_INLINE Q shl_q(Q a) {
    return vreinterpretq_u8_u32(vshlq_n_u32(vreinterpretq_u32_u8(a), n));
  }
  ORRERY_INLINE I bytes_to_lanes(Q a) {
    return each<I>([&](int g) {
      const uint32x4_t moved = vshlq_u32(vreinterpretq_u32_u8(a), vdupq_n_s32(-8 * g));
      return vreinterpretq_s32_u32(vandq_u32(moved, vdupq_n_u32(255)));
    });
  }
  ORRERY_INLINE I signed_bytes_to_lanes(Q a) {
    return each<I>([&](int g) {
      const int32x4_t top = vshlq_s32(vreinterpretq_s32_u8(a), vdupq_n_s32(24 - 8 * g));
      return vshrq_n_s32(top, 24);
    });
  }
  ORRERY_INLINE F f16_low_tiled(Q a) {
    const float32x4_t v = f16_lanes(vreinterpretq_u32_u8(a));
    return each<F>([&](int) { return v; });
  }
  ORRERY_INLINE F f16_high_tiled(Q a) { return f16_low_tiled(shr_q<16>(a)); }

 private:
  // Lanes i + 8, then i + 4.
  ORRERY_INLINE float32x4_t fold(F a) {
    return vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  }
  ORRERY_INLINE float32x4_t f16_lanes(uint32x4_t a) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(a)));
  }
  ORRERY_INLINE void copy_u16(std::uint16_t* to, const void* p, int n) {
    for (int i = 0; i < 16; ++i) to[i] = i < n ? load_u16(static_cast<const char*>(p) + 2 * i) : 0;
  }
  // The bf16 in the upper half of each lane, the lower half zero.
  ORRERY_INLINE uint32x4_t bf16_bits(float32x4_t a) {
    const uint32x4_t bits = vreinterpretq_u32_f32(a);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    const uint32x4_t chosen = vbslq_u32(vceqq_f32(a, a), rounded, quiet);
    return vandq_u32(chosen, vdupq_n_u32(0xFFFF0000U));
  }
};

}  // namespace
}  // namespace orrery::kernels
