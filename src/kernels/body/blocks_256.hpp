// Weight blocks of 256 values for class i8: a step is one block of each of four rows.
// See blocks_32.hpp for the members of a format, and tensor/decode.hpp for the layouts.
#pragma once

#include "kernels/body/blocks_32.hpp"

namespace orrery::kernels {
namespace {

template <int kBytes, int kGroupLength, int kZeroPoint, bool kHasMin>
struct Block256 {
  static constexpr int kGroup = kGroupLength, kQuads = 64 / kGroupLength, kStepBytes = kBytes;
  static constexpr int kZero = kZeroPoint, kBlockBytes = 0;
  static constexpr bool kSigned = false, kMin = kHasMin, kTwoGroups = false;
  static constexpr int kNibbleWords = 0;
};

// The first 16 bytes of a block of each row, transposed: part i of row r becomes part r of word i.
struct Headers {
  V::Q word[4];
};
ORRERY_INLINE Headers load_headers(const Rows& rows, int offset) {
  Headers h = {{V::load_q(rows.at[0] + offset), V::load_q(rows.at[1] + offset),
                V::load_q(rows.at[2] + offset), V::load_q(rows.at[3] + offset)}};
  V::transpose_q(h.word[0], h.word[1], h.word[2], h.word[3]);
  return h;
}

ORRERY_INLINE V::Q each_byte(V::Q a, std::uint32_t mask) {
  return V::and_q(a, V::splat_q32(mask * 0x01010101U));
}

// 6-bit scales and minima of Q4_K and Q5_K.
ORRERY_INLINE Scales<2> scales_q45_k(const Rows& rows) {
  const Headers h = load_headers(rows, 0);
  const V::F d = V::f16_low_tiled(h.word[0]), dmin = V::neg(V::f16_high_tiled(h.word[0]));
  const V::Q s0 = h.word[1], s4 = h.word[2], s8 = h.word[3];
  const V::Q scale[2] = {each_byte(s0, 0x3F),
                         V::or_q(each_byte(s8, 0x0F), each_byte(V::shr_q<2>(s0), 0x30))};
  const V::Q min[2] = {each_byte(s4, 0x3F),
                       V::or_q(each_byte(V::shr_q<4>(s8), 0x0F), each_byte(V::shr_q<2>(s4), 0x30))};
  Scales<2> out;
  for (int quad = 0; quad < 2; ++quad) {
    out.d[quad] = V::mul(d, V::to_float(V::bytes_to_lanes(scale[quad])));
    out.m[quad] = V::mul(dmin, V::to_float(V::bytes_to_lanes(min[quad])));
  }
  return out;
}

struct FormatQ4K : Block256<144, 32, 0, true> {
  static constexpr int kNibbleWords = 8;
  ORRERY_INLINE Scales<2> scales(const Rows& rows) { return scales_q45_k(rows); }
  template <int quad>
  ORRERY_INLINE V::B bytes(const std::uint8_t* p) {
    return V::load_b(p + 16 + 64 * quad);
  }
  ORRERY_INLINE V::B code(V::B nibbles) { return nibbles; }
};

struct FormatQ5K : Block256<176, 32, 0, true> {
  ORRERY_INLINE Scales<2> scales(const Rows& rows) { return scales_q45_k(rows); }
  template <int quad>
  ORRERY_INLINE void codes(const std::uint8_t* p, V::B& low, V::B& high) {
    constexpr int bit = 1 << (4 * quad);
    const V::B mask = V::group_bytes(bit, 2 * bit, 4 * bit, 8 * bit);
    V::split_nibbles_k(V::load_b(p + 48 + 64 * quad), low, high);
    low = V::or_b(low, V::where_bits<16>(V::repeat_q(V::load_q(p + 16)), mask));
    high = V::or_b(high, V::where_bits<16>(V::repeat_q(V::load_q(p + 32)), mask));
  }
};

struct FormatIq4Xs : Block256<136, 32, 0, false> {
  static constexpr bool kSigned = true;
  static constexpr int kNibbleWords = 4;
  ORRERY_INLINE Scales<2> scales(const Rows& rows) {
    const V::Q head = rows.words(0), lows = rows.words(4);
    const V::F d = V::f16_low_tiled(head);
    // Four nibbles and four 2-bit fields, each to its own byte.
    const V::Q low16[2] = {V::and_q(lows, V::splat_q32(0xFFFF)), V::shr_q<16>(lows)};
    const V::Q high8[2] = {V::and_q(V::shr_q<16>(head), V::splat_q32(0xFF)), V::shr_q<24>(head)};
    Scales<2> out;
    for (int quad = 0; quad < 2; ++quad) {
      V::Q x = low16[quad], y = high8[quad];
      x = V::and_q(V::or_q(x, V::shl_q<8>(x)), V::splat_q32(0x00FF00FF));
      x = each_byte(V::or_q(x, V::shl_q<4>(x)), 0x0F);
      y = V::and_q(V::or_q(y, V::shl_q<12>(y)), V::splat_q32(0x000F000F));
      y = each_byte(V::or_q(y, V::shl_q<6>(y)), 0x03);
      const V::I scale = V::bytes_to_lanes(V::or_q(x, V::shl_q<4>(y)));
      out.d[quad] = V::mul(d, V::to_float(V::sub_i(scale, V::splat_i(32))));
      out.m[quad] = V::zero();
    }
    return out;
  }
  template <int quad>
  ORRERY_INLINE V::B bytes(const std::uint8_t* p) {
    return V::load_b(p + 8 + 64 * quad);
  }
  ORRERY_INLINE V::B code(V::B nibbles) { return V::lookup(V::load_q(kNonLinear), nibbles); }
};

// Weights i = 128 n + 64 jj + ... of Q2_K and Q3_K: quad 2 n + jj.
template <int quad>
ORRERY_INLINE V::B two_bit_codes(const std::uint8_t* qs) {
  constexpr int shift = 4 * (quad % 2);
  return V::shift_halves<shift, shift + 2, 3>(V::load_2x32(qs + 32 * (quad / 2)));
}

struct FormatQ2K : Block256<84, 16, 0, true> {
  ORRERY_INLINE Scales<4> scales(const Rows& rows) {
    const V::Q d_words = rows.words(80);
    const V::F d = V::f16_low_tiled(d_words), dmin = V::neg(V::f16_high_tiled(d_words));
    const Headers h = load_headers(rows, 0);
    Scales<4> out;
    for (int quad = 0; quad < 4; ++quad) {
      const V::Q bytes = h.word[quad];
      out.d[quad] = V::mul(d, V::to_float(V::bytes_to_lanes(each_byte(bytes, 0x0F))));
      out.m[quad] =
          V::mul(dmin, V::to_float(V::bytes_to_lanes(each_byte(V::shr_q<4>(bytes), 0x0F))));
    }
    return out;
  }
  template <int quad>
  ORRERY_INLINE void codes(const std::uint8_t* p, V::B& low, V::B&) {
    low = two_bit_codes<quad>(p + 16);
  }
};

struct FormatQ3K : Block256<110, 16, 4, false> {
  ORRERY_INLINE Scales<4> scales(const Rows& rows) {
    const V::Q s0 = rows.words(96), s4 = rows.words(100), s8 = rows.words(104);
    const V::F d = V::f16_high_tiled(rows.words(106));
    const V::Q scale[4] = {
        V::or_q(each_byte(s0, 0x0F), V::shl_q<4>(each_byte(s8, 3))),
        V::or_q(each_byte(s4, 0x0F), V::shl_q<4>(each_byte(V::shr_q<2>(s8), 3))),
        V::or_q(each_byte(V::shr_q<4>(s0), 0x0F), V::shl_q<4>(each_byte(V::shr_q<4>(s8), 3))),
        V::or_q(each_byte(V::shr_q<4>(s4), 0x0F), V::shl_q<4>(each_byte(V::shr_q<6>(s8), 3)))};
    Scales<4> out;
    for (int quad = 0; quad < 4; ++quad) {
      const V::I wide = V::sub_i(V::bytes_to_lanes(scale[quad]), V::splat_i(32));
      out.d[quad] = V::mul(d, V::to_float(wide));
      out.m[quad] = V::zero();
    }
    return out;
  }
  template <int quad>
  ORRERY_INLINE void codes(const std::uint8_t* p, V::B& low, V::B&) {
    constexpr int bit = 1 << (2 * quad);
    const V::B mask = V::group_bytes(bit, bit, 2 * bit, 2 * bit);
    low = V::or_b(two_bit_codes<quad>(p + 32), V::where_bits<4>(V::load_2x32(p), mask));
  }
};

struct FormatQ6K : Block256<210, 16, 32, false> {
  ORRERY_INLINE Scales<4> scales(const Rows& rows) {
    const V::F d = V::f16_high_tiled(rows.words(206));
    const Headers h = load_headers(rows, 192);
    Scales<4> out;
    for (int quad = 0; quad < 4; ++quad) {
      out.d[quad] = V::mul(d, V::to_float(V::signed_bytes_to_lanes(h.word[quad])));
      out.m[quad] = V::zero();
    }
    return out;
  }
  template <int quad>
  ORRERY_INLINE void codes(const std::uint8_t* p, V::B& low, V::B&) {
    constexpr int shift = 4 * (quad % 2);
    const V::B nibbles = V::shift_halves<shift, shift, 15>(V::load_b(p + 64 * (quad / 2)));
    const V::B high = V::shift_halves<shift, shift + 2, 3>(V::load_2x32(p + 128 + 32 * (quad / 2)));
    low = V::or_b(nibbles, V::shl_b<4>(high));
  }
};

}  // namespace
}  // namespace orrery::kernels
