// The vocabulary as plain loops: the definition of every member, and the unit for any machine.
#pragma once

#include "kernels/isa/emu_half.hpp"
#include "kernels/isa/vec_base.hpp"

namespace orrery::kernels {
namespace {

struct V : EmuHalf {
  struct F {
    float v[16];
  };
  struct I {
    std::int32_t v[16];
  };
  struct B {
    std::uint8_t v[64];
  };
  struct Q {
    std::uint8_t v[16];
  };

  // dot_signed() takes signed weights xor-ed with this; its sums then hold kSignedBias * sum(a)
  // more.
  static constexpr int kSignedBias = 0;
  static constexpr int kMaxTile = 1;    // activation rows at once: 1, 2 or 4
  static constexpr int kSums = 16;      // F or I that may be summed up at once
  static constexpr int kPanelRows = 3;  // so many use panels (row_panel.hpp)
  static constexpr int kPanelTile = 4;  // activation rows that pass over a panel together
  static constexpr int kPanelPair = 3;  // those that pass over two at once; 0: two do not fit

  template <class Op>
  ORRERY_EMU F map(Op op) {
    F out;
    for (int i = 0; i < 16; ++i) out.v[i] = op(i);
    return out;
  }
  template <class Op>
  ORRERY_EMU I map_i(Op op) {
    I out;
    for (int i = 0; i < 16; ++i) out.v[i] = static_cast<std::int32_t>(op(i));
    return out;
  }
  template <class Op>
  ORRERY_EMU B map_b(Op op) {
    B out;
    for (int i = 0; i < 64; ++i) out.v[i] = static_cast<std::uint8_t>(op(i));
    return out;
  }
  template <class Op>
  ORRERY_EMU Q map_q(Op op) {
    Q out;
    for (int i = 0; i < 16; ++i) out.v[i] = static_cast<std::uint8_t>(op(i));
    return out;
  }

  // ---- floats ----
  ORRERY_EMU F splat(float x) {
    return map([&](int) { return x; });
  }
  ORRERY_EMU F zero() { return splat(0.0F); }
  ORRERY_EMU F load(const float* p) { return load_partial(p, 16); }
  ORRERY_EMU F load_partial(const float* p, int n) {  // lanes from n on are +0 and are not read
    return map([&](int i) { return i < n ? bits_float(load_u32(p + i)) : 0.0F; });
  }
  ORRERY_EMU void store(float* p, F a) { store_partial(p, a, 16); }
  ORRERY_EMU void store_partial(float* p, F a, int n) {
    for (int i = 0; i < n; ++i) p[i] = a.v[i];
  }
  ORRERY_EMU F load_f16(const void* p) { return load_f16_partial(p, 16); }
  ORRERY_EMU F load_f16_partial(const void* p, int n) {
    const auto* bytes = static_cast<const std::uint8_t*>(p);
    return map([&](int i) { return i < n ? half(load_u16(bytes + 2 * i)) : 0.0F; });
  }
  ORRERY_EMU F load_bf16(const void* p) { return load_bf16_partial(p, 16); }
  ORRERY_EMU F load_bf16_partial(const void* p, int n) {
    const auto* bytes = static_cast<const std::uint8_t*>(p);
    return map([&](int i) {
      return i < n ? bits_float(static_cast<std::uint32_t>(load_u16(bytes + 2 * i)) << 16) : 0.0F;
    });
  }
  ORRERY_EMU void store_f16(void* p, F a) { store_f16_partial(p, a, 16); }
  ORRERY_EMU void store_f16_partial(void* p, F a, int n) {
    for (int i = 0; i < n; ++i) put_u16(p, i, to_half(a.v[i]));
  }
  ORRERY_EMU void store_bf16(void* p, F a) {
    for (int i = 0; i < 16; ++i) put_u16(p, i, to_bf16(a.v[i]));
  }
  // 32 bf16: even[0], odd[0], even[1], odd[1], ...
  ORRERY_EMU void store_bf16_pairs(void* p, F even, F odd) {
    for (int i = 0; i < 16; ++i) {
      put_u16(p, 2 * i, to_bf16(even.v[i]));
      put_u16(p, 2 * i + 1, to_bf16(odd.v[i]));
    }
  }
  // As bf16 (nearest even) and back.
  ORRERY_EMU F round_bf16(F a) {
    return map(
        [&](int i) { return bits_float(static_cast<std::uint32_t>(to_bf16(a.v[i])) << 16); });
  }
  ORRERY_EMU F add(F a, F b) {
    return map([&](int i) { return a.v[i] + b.v[i]; });
  }
  ORRERY_EMU F sub(F a, F b) {
    return map([&](int i) { return a.v[i] - b.v[i]; });
  }
  ORRERY_EMU F mul(F a, F b) {
    return map([&](int i) { return a.v[i] * b.v[i]; });
  }
  ORRERY_EMU F div(F a, F b) {
    return map([&](int i) { return a.v[i] / b.v[i]; });
  }
  ORRERY_EMU F sqrt(F a) {
    return map([&](int i) { return __builtin_sqrtf(a.v[i]); });
  }
  ORRERY_EMU F fma(F a, F b, F c) {  // a * b + c
    return map([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
  }
  ORRERY_EMU F fnma(F a, F b, F c) {  // c - a * b
    return map([&](int i) { return __builtin_fmaf(-a.v[i], b.v[i], c.v[i]); });
  }
  ORRERY_EMU F min(F a, F b) {
    return map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  ORRERY_EMU F max(F a, F b) {
    return map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  ORRERY_EMU F abs(F a) {
    return map([&](int i) { return bits_float(float_bits(a.v[i]) & 0x7FFFFFFFU); });
  }
  ORRERY_EMU F neg(F a) {
    return map([&](int i) { return bits_float(float_bits(a.v[i]) ^ 0x80000000U); });
  }
  // |a| with the sign of s
  ORRERY_EMU F copysign(F a, F s) {
    return map([&](int i) {
      return bits_float((float_bits(a.v[i]) & 0x7FFFFFFFU) | (float_bits(s.v[i]) & 0x80000000U));
    });
  }
  ORRERY_EMU F select_lt(F a, F b, F yes, F no) {  // a < b ? yes : no
    return map([&](int i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
  }
  // lanes below n from a, the others from b
  ORRERY_EMU F first(int n, F a, F b) {
    return map([&](int i) { return i < n ? a.v[i] : b.v[i]; });
  }
  ORRERY_EMU float sum(F a) {
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
    return a.v[0];
  }
  ORRERY_EMU float max_lane(F a) {
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
    return a.v[0];
  }
  // out[i] = sum of the i-th argument
  ORRERY_EMU void sum4(F a, F b, F c, F d, float* out) {
    out[0] = sum(a), out[1] = sum(b), out[2] = sum(c), out[3] = sum(d);
  }
  // Lanes 4 p + r: (p0 + p2) + (p1 + p3) for r = 0..3.
  ORRERY_EMU void sum_partials(F a, float* out) {
    for (int r = 0; r < 4; ++r) out[r] = (a.v[r] + a.v[8 + r]) + (a.v[4 + r] + a.v[12 + r]);
  }
  // Lane 4 g + r = p[g] (spread) or p[r] (tile).
  ORRERY_EMU F spread4(const float* p) {
    return map([&](int i) { return p[i / 4]; });
  }

  ORRERY_EMU F spread2(const float* p) {  // lane 4 g + r = p[g / 2]
    return map([&](int i) { return p[i / 8]; });
  }

  // ---- integers ----
  ORRERY_EMU I splat_i(std::int32_t x) {
    return map_i([&](int) { return x; });
  }
  ORRERY_EMU I as_int(F a) {
    return map_i([&](int i) { return float_bits(a.v[i]); });
  }
  ORRERY_EMU F as_float(I a) {
    return map([&](int i) { return bits_float(u(a.v[i])); });
  }
  ORRERY_EMU F to_float(I a) {
    return map([&](int i) { return static_cast<float>(a.v[i]); });
  }
  // Nearest, ties to even; |a| < 2^22.
  ORRERY_EMU I round_int(F a) {
    return map_i([&](int i) {
      const float shifted = a.v[i] + 0x1.8p23F;
      return u(static_cast<std::int32_t>(float_bits(shifted))) - 0x4B400000U;
    });
  }
  ORRERY_EMU I add_i(I a, I b) {
    return map_i([&](int i) { return u(a.v[i]) + u(b.v[i]); });
  }
  ORRERY_EMU I sub_i(I a, I b) {
    return map_i([&](int i) { return u(a.v[i]) - u(b.v[i]); });
  }
  ORRERY_EMU I and_i(I a, I b) {
    return map_i([&](int i) { return a.v[i] & b.v[i]; });
  }
  ORRERY_EMU I or_i(I a, I b) {
    return map_i([&](int i) { return a.v[i] | b.v[i]; });
  }
  template <int n>
  ORRERY_EMU I shl(I a) {
    return map_i([&](int i) { return u(a.v[i]) << n; });
  }
  template <int n>
  ORRERY_EMU I shr(I a) {
    return map_i([&](int i) { return u(a.v[i]) >> n; });
  }  // logical
  ORRERY_EMU I select_lt_i(I a, I b, I yes, I no) {
    return map_i([&](int i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
  }
  // 16 int32 (values -128..127) to 16 bytes
  ORRERY_EMU void store_i8(std::int8_t* p, I a) {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(a.v[i]);
  }
  // 16 int32 (values of int16) to 16 int16
  ORRERY_EMU void store_i16(std::int16_t* p, I a) {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int16_t>(a.v[i]);
  }
  ORRERY_EMU std::int32_t sum_i(I a) {
    std::uint32_t total = 0;
    for (int i = 0; i < 16; ++i) total += u(a.v[i]);
    return static_cast<std::int32_t>(total);
  }
  // Lane 4 g + r: the 32 bits at w[r] + g * stride; the low 16 alone need be right where blocks are
  // no whole words, the low 8 where they are odd. 4 * stride bytes may be read from each w[r].
  template <int stride>
  ORRERY_EMU I headers(const std::uint8_t* const (&w)[4]) {
    return map_i([&](int i) { return load_u32(w[i % 4] + i / 4 * stride); });
  }
  // Their low, or low and high, 16 bits as f16.
  template <int stride>
  ORRERY_EMU F f16_headers(const std::uint8_t* const (&w)[4]) {
    return f16_low(headers<stride>(w));
  }
  template <int stride>
  ORRERY_EMU void f16_pair_headers(const std::uint8_t* const (&w)[4], F& low, F& high) {
    const I words = headers<stride>(w);
    low = f16_low(words);
    high = f16_high(words);
  }
  // The low or high 16 bits of each lane as f16.
  ORRERY_EMU F f16_low(I a) {
    return map([&](int i) { return half(static_cast<std::uint16_t>(a.v[i])); });
  }
  ORRERY_EMU F f16_high(I a) { return f16_low(shr<16>(a)); }

  // ---- bytes ----
  ORRERY_EMU B splat_b(int x) {
    return map_b([&](int) { return x; });
  }
  ORRERY_EMU B load_b(const void* p) {
    B out;
    __builtin_memcpy(out.v, p, 64);
    return out;
  }
  ORRERY_EMU void store_b(void* p, B a) { __builtin_memcpy(p, a.v, 64); }
  // 16 bytes from each of p, p + stride, p + 2 stride, p + 3 stride
  ORRERY_EMU B load_4x16(const std::uint8_t* p, std::size_t stride) {
    return map_b([&](int i) { return p[static_cast<std::size_t>(i / 16) * stride + i % 16]; });
  }
  // 32 bytes from each of p, p + stride
  ORRERY_EMU B load_2x32(const std::uint8_t* p, std::size_t stride) {
    return map_b([&](int i) { return p[static_cast<std::size_t>(i / 32) * stride + i % 32]; });
  }
  // 32 bytes, twice
  ORRERY_EMU B load_2x32(const std::uint8_t* p) {
    return map_b([&](int i) { return p[i % 32]; });
  }
  // 16 bytes, four times
  ORRERY_EMU B repeat_q(Q a) {
    return map_b([&](int i) { return a.v[i % 16]; });
  }
  // 4 bytes, sixteen times
  ORRERY_EMU B repeat_word(const void* p) {
    return map_b([&](int i) { return static_cast<const std::uint8_t*>(p)[i % 4]; });
  }
  // 4 x 4 of 32 bits inside each group
  ORRERY_EMU void transpose_words(B& a, B& b, B& c, B& d) {
    const B in[4] = {a, b, c, d};
    B* out[4] = {&a, &b, &c, &d};
    for (int r = 0; r < 4; ++r)
      for (int i = 0; i < 64; ++i) out[r]->v[i] = in[i % 16 / 4].v[i / 16 * 16 + r * 4 + i % 4];
  }
  // 4 x 4 of the groups of 16 bytes
  ORRERY_EMU void transpose_groups(B& a, B& b, B& c, B& d) {
    const B in[4] = {a, b, c, d};
    B* out[4] = {&a, &b, &c, &d};
    for (int g = 0; g < 4; ++g)
      for (int i = 0; i < 64; ++i) out[g]->v[i] = in[i / 16].v[16 * g + i % 16];
  }
  // Group g of 16 bytes to p + g * stride.
  ORRERY_EMU void store_groups(void* p, std::size_t stride, B a) {
    for (std::size_t g = 0; g < 4; ++g)
      __builtin_memcpy(static_cast<std::uint8_t*>(p) + g * stride, a.v + 16 * g, 16);
  }
  ORRERY_EMU B as_bytes(F a) {
    B out;
    __builtin_memcpy(out.v, a.v, 64);
    return out;
  }
  // Four groups of 8 bytes, each twice (as the two halves of a 16-byte group).
  ORRERY_EMU B load_4x8_twice(const std::uint8_t* p) {
    return map_b([&](int i) { return p[i / 16 * 8 + i % 8]; });
  }
  // 128 bytes as four blocks of 32: their first and their second halves
  ORRERY_EMU void split_halves(const std::int8_t* p, B& low, B& high) {
    low = map_b([&](int i) { return p[i / 16 * 32 + i % 16]; });
    high = map_b([&](int i) { return p[i / 16 * 32 + 16 + i % 16]; });
  }
  // Nibbles of a 64-byte row of 128 weights, bytes 32 j.. hold groups 2 j (low) and 2 j + 1 (high):
  // the first and the second halves of the four groups.
  ORRERY_EMU void split_nibbles_k(B a, B& low, B& high) {
    const auto nibble = [&](int i, int half) {
      const int group = i / 16;
      const int byte = a.v[group / 2 * 32 + half * 16 + i % 16];
      return group % 2 == 0 ? byte & 15 : byte >> 4;
    };
    low = map_b([&](int i) { return nibble(i, 0); });
    high = map_b([&](int i) { return nibble(i, 1); });
  }
  ORRERY_EMU B and_b(B a, B b) {
    return map_b([&](int i) { return a.v[i] & b.v[i]; });
  }
  ORRERY_EMU B or_b(B a, B b) {
    return map_b([&](int i) { return a.v[i] | b.v[i]; });
  }
  ORRERY_EMU B xor_b(B a, B b) {
    return map_b([&](int i) { return a.v[i] ^ b.v[i]; });
  }
  ORRERY_EMU B group_bytes(int a, int b, int c, int d) {  // one constant per group
    const int all[4] = {a, b, c, d};
    return map_b([&](int i) { return all[i / 16]; });
  }
  // Signed bytes as dot_signed() wants them.
  ORRERY_EMU B signed_codes(B a) { return a; }
  ORRERY_EMU B low_nibbles(B a) {
    return map_b([&](int i) { return a.v[i] & 15; });
  }
  ORRERY_EMU B high_nibbles(B a) {
    return map_b([&](int i) { return a.v[i] >> 4; });
  }
  // Bytes shifted right by `low` (groups 0 and 1) or `high` (groups 2 and 3), then masked.
  template <int low, int high, int mask>
  ORRERY_EMU B shift_halves(B a) {
    return map_b([&](int i) { return (a.v[i] >> (i < 32 ? low : high)) & mask; });
  }
  // Bytes of each group: the first 8 as they are, the last 8 shifted right by 4; all & 15.
  ORRERY_EMU B nibble_halves(B a) {
    return map_b([&](int i) { return (a.v[i] >> (i % 16 < 8 ? 0 : 4)) & 15; });
  }
  template <int n>
  ORRERY_EMU B shl_b(B a) {
    return map_b([&](int i) { return a.v[i] << n; });
  }
  // `value` in the bytes where a & mask is not zero
  template <int value>
  ORRERY_EMU B where_bits(B a, B mask) {
    return map_b([&](int i) { return (a.v[i] & mask.v[i]) != 0 ? value : 0; });
  }
  // Four u32 at p + g * stride: 16 in byte i of group g where bit i (or 16 + i) is set.
  template <bool upper>
  ORRERY_EMU B fifth_bits(const std::uint8_t* p, std::size_t stride) {
    return map_b([&](int i) {
      const std::uint32_t bits = load_u32(p + static_cast<std::size_t>(i / 16) * stride);
      return (bits >> (i % 16 + (upper ? 16 : 0)) & 1U) != 0 ? 16 : 0;
    });
  }
  ORRERY_EMU B lookup(Q table, B index) {  // index < 16
    return map_b([&](int i) { return table.v[index.v[i]]; });
  }
  ORRERY_EMU I zero_dots() { return splat_i(0); }
  // acc[i] += sum of 4 products; w unsigned and below 128, a signed in -127..127
  ORRERY_EMU I dot(I acc, B w, B a) {
    for (int i = 0; i < 64; ++i) acc.v[i / 4] += w.v[i] * static_cast<std::int8_t>(a.v[i]);
    return acc;
  }
  // Two dots; w below 64, so that AVX2 may add pairs in 16 bits.
  ORRERY_EMU I dot_pair(I acc, B w_low, B a_low, B w_high, B a_high) {
    return dot(dot(acc, w_low, a_low), w_high, a_high);
  }
  ORRERY_EMU I dot_signed(I acc, B w, B a) {
    for (int i = 0; i < 64; ++i)
      acc.v[i / 4] += static_cast<std::int8_t>(w.v[i]) * static_cast<std::int8_t>(a.v[i]);
    return acc;
  }
  // 32 bytes as 32 int16, sign or zero extended.
  ORRERY_EMU B extend_i8(const void* p) {
    const auto* bytes = static_cast<const std::int8_t*>(p);
    return map_b([&](int i) { return i % 2 == 0 ? bytes[i / 2] : bytes[i / 2] < 0 ? 0xFF : 0; });
  }
  ORRERY_EMU B extend_u8(const void* p) {
    const auto* bytes = static_cast<const std::uint8_t*>(p);
    return map_b([&](int i) { return i % 2 == 0 ? bytes[i / 2] : 0; });
  }
  // acc[i] += sum of 2 products of int16; none of them is -32768 in both.
  ORRERY_EMU I dot_i16(I acc, B a, B w) {
    const auto at = [](const B& b, int i) {
      return std::int32_t{static_cast<std::int16_t>(load_u16(b.v + 2 * i))};
    };
    return map_i([&](int i) {
      return u(acc.v[i]) + u(at(a, 2 * i) * at(w, 2 * i)) + u(at(a, 2 * i + 1) * at(w, 2 * i + 1));
    });
  }
  // Two steps that turn the dots of four rows into lanes 4 g + r.
  ORRERY_EMU I reduce_pair(I a, I b) {  // per group: a0 + a2, b0 + b2, a1 + a3, b1 + b3
    return map_i([&](int i) {
      const I& from = i % 2 == 0 ? a : b;
      const int at = i / 4 * 4 + i % 4 / 2;
      return from.v[at] + from.v[at + 2];
    });
  }
  ORRERY_EMU I reduce_rows(I ab, I cd) {
    return map_i([&](int i) {
      const I& from = i % 4 < 2 ? ab : cd;
      const int at = i / 4 * 4 + i % 2;
      return from.v[at] + from.v[at + 2];
    });
  }
  // Sums of q over 16: eight (groups of 32) or four (groups of 16) int16 to lanes 4 g + r.
  ORRERY_EMU I group_sums32(const std::int16_t* p) {
    return map_i([&](int i) { return p[i / 4 * 2] + p[i / 4 * 2 + 1]; });
  }
  ORRERY_EMU I group_sums16(const std::int16_t* p) {
    return map_i([&](int i) { return p[i / 4]; });
  }
  template <int n>
  ORRERY_EMU I mul_const(I a) {
    return map_i([&](int i) { return a.v[i] * n; });
  }

  // ---- quarters ----
  ORRERY_EMU Q load_q(const void* p) {
    Q out;
    __builtin_memcpy(out.v, p, 16);
    return out;
  }
  ORRERY_EMU Q splat_q32(std::uint32_t x) {
    return map_q([&](int i) { return x >> (8 * (i % 4)); });
  }
  ORRERY_EMU Q from_u32(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    const std::uint32_t all[4] = {a, b, c, d};
    return map_q([&](int i) { return all[i / 4] >> (8 * (i % 4)); });
  }
  ORRERY_EMU void transpose_q(Q& a, Q& b, Q& c, Q& d) {  // 4 x 4 of 32 bits
    const Q in[4] = {a, b, c, d};
    Q* out[4] = {&a, &b, &c, &d};
    for (int r = 0; r < 4; ++r)
      for (int i = 0; i < 16; ++i) out[r]->v[i] = in[i / 4].v[r * 4 + i % 4];
  }
  ORRERY_EMU Q and_q(Q a, Q b) {
    return map_q([&](int i) { return a.v[i] & b.v[i]; });
  }
  ORRERY_EMU Q or_q(Q a, Q b) {
    return map_q([&](int i) { return a.v[i] | b.v[i]; });
  }
  template <int n>
  ORRERY_EMU Q shr_q(Q a) {  // of the 32-bit parts
    return map_q([&](int i) { return load_u32(a.v + i / 4 * 4) >> n >> (8 * (i % 4)); });
  }
  template <int n>
  ORRERY_EMU Q shl_q(Q a) {
    return map_q([&](int i) { return load_u32(a.v + i / 4 * 4) << n >> (8 * (i % 4)); });
  }
  // Byte g of the 32-bit part r to lane 4 g + r, zero or sign extended.
  ORRERY_EMU I bytes_to_lanes(Q a) {
    return map_i([&](int i) { return a.v[i % 4 * 4 + i / 4]; });
  }
  ORRERY_EMU I signed_bytes_to_lanes(Q a) {
    return map_i([&](int i) { return static_cast<std::int8_t>(a.v[i % 4 * 4 + i / 4]); });
  }
  // The low or high 16 bits of part r as f16 to lanes 4 g + r of every g.
  ORRERY_EMU F f16_low_tiled(Q a) {
    return map([&](int i) { return half(load_u16(a.v + i % 4 * 4)); });
  }
  ORRERY_EMU F f16_high_tiled(Q a) {
    return map([&](int i) { return half(load_u16(a.v + i % 4 * 4 + 2)); });
  }

 private:
  ORRERY_EMU std::uint32_t u(std::int32_t x) { return static_cast<std::uint32_t>(x); }
  ORRERY_EMU void put_u16(void* p, int i, std::uint16_t v) {
    __builtin_memcpy(static_cast<std::uint8_t*>(p) + 2 * i, &v, 2);
  }
};

}  // namespace
}  // namespace orrery::kernels
