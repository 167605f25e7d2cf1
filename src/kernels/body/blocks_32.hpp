// Weight blocks of 32 values for class i8: a step is four blocks of each of four rows.
//
// A format F has: kGroup weights a scale, kQuads groups of four scale groups a step, kStepBytes,
// kZero (the zero point), kSigned (codes for dot_signed), kMin (a minimum is added), kBlockBytes
// where a step may be cut (else 0), kOperands 64-byte operands a quad, and
//   scales(rows): d[quad] and m[quad], lanes 4 g + r;
//   codes<quad>(p, low, high): p is a row's step; the halves of the groups (low alone for 16).
// Where a code is a nibble, F has instead of codes():
//   kNibbleWords (else 0): so many words of 4 bytes lie side by side whose low nibbles are of one
//     group: 4, and the high ones are its second half, or 8, and the high ones are the next group;
//   bytes<quad>(p): the 64 bytes of the quad; code(nibbles).
// Where a code is a byte, F has kTwoGroups (else false) and two_groups<half>(p): the codes of two
// groups, one behind the other.
#pragma once

#include "kernels/isa/vec.hpp"

namespace orrery::kernels {
namespace {

// Four rows at one step.
struct Rows {
  const std::uint8_t* at[4];

  // One u32 of each row, `offset` bytes into the step.
  [[gnu::always_inline]] V::Q words(int offset) const {
    return V::from_u32(load_u32(at[0] + offset), load_u32(at[1] + offset), load_u32(at[2] + offset),
                       load_u32(at[3] + offset));
  }
};

// A step of fewer than four blocks, with zeros in the place of the others, where reading a whole
// step would pass the end of the weight.
template <class Format>
struct CutStep {
  static constexpr int kStride = (Format::kStepBytes + 63) / 64 * 64;
  alignas(64) std::uint8_t bytes[4][kStride];

  [[gnu::always_inline]] Rows copy(const Rows& rows, int blocks) {
    const int filled = blocks * Format::kBlockBytes;
    Rows copies;
    for (int r = 0; r < 4; ++r) {
      for (int i = 0; i < kStride; ++i) bytes[r][i] = i < filled ? rows.at[r][i] : 0;
      copies.at[r] = bytes[r];
    }
    return copies;
  }
};

template <int kQuads>
struct Scales {
  V::F d[kQuads], m[kQuads];
};

template <int kBytes, int kZeroPoint, bool kHasMin>
struct Block32 {
  static constexpr int kGroup = 32, kQuads = 1, kStepBytes = 4 * kBytes, kZero = kZeroPoint;
  static constexpr int kBlockBytes = kBytes;
  static constexpr bool kSigned = false, kMin = kHasMin, kTwoGroups = false;
  static constexpr int kNibbleWords = 0;

  ORRERY_INLINE Scales<1> scales(const Rows& rows) {
    Scales<1> out;
    if constexpr (kHasMin) {
      V::f16_pair_headers<kBytes>(rows.at, out.d[0], out.m[0]);
    } else {
      out.d[0] = V::f16_headers<kBytes>(rows.at);
      out.m[0] = V::zero();
    }
    return out;
  }
};

struct FormatQ4_0 : Block32<18, 8, false> {
  static constexpr int kNibbleWords = 4;
  template <int quad>
  ORRERY_INLINE V::B bytes(const std::uint8_t* p) {
    return V::load_4x16(p + 2, 18);
  }
  ORRERY_INLINE V::B code(V::B nibbles) { return nibbles; }
};

struct FormatQ4_1 : Block32<20, 0, true> {
  static constexpr int kNibbleWords = 4;
  template <int quad>
  ORRERY_INLINE V::B bytes(const std::uint8_t* p) {
    return V::load_4x16(p + 4, 20);
  }
  ORRERY_INLINE V::B code(V::B nibbles) { return nibbles; }
};

struct FormatQ5_0 : Block32<22, 16, false> {
  template <int quad>
  ORRERY_INLINE void codes(const std::uint8_t* p, V::B& low, V::B& high) {
    const V::B bytes = V::load_4x16(p + 6, 22);
    low = V::or_b(V::low_nibbles(bytes), V::fifth_bits<false>(p + 2, 22));
    high = V::or_b(V::high_nibbles(bytes), V::fifth_bits<true>(p + 2, 22));
  }
};

struct FormatQ5_1 : Block32<24, 0, true> {
  template <int quad>
  ORRERY_INLINE void codes(const std::uint8_t* p, V::B& low, V::B& high) {
    const V::B bytes = V::load_4x16(p + 8, 24);
    low = V::or_b(V::low_nibbles(bytes), V::fifth_bits<false>(p + 4, 24));
    high = V::or_b(V::high_nibbles(bytes), V::fifth_bits<true>(p + 4, 24));
  }
};

struct FormatQ8_0 : Block32<34, 0, false> {
  static constexpr bool kSigned = true, kTwoGroups = true;
  template <int half>
  ORRERY_INLINE V::B two_groups(const std::uint8_t* p) {
    return V::signed_codes(V::load_2x32(p + 2 + 68 * half, 34));
  }
  template <int quad>
  ORRERY_INLINE void codes(const std::uint8_t* p, V::B& low, V::B& high) {
    low = V::signed_codes(V::load_4x16(p + 2, 34));
    high = V::signed_codes(V::load_4x16(p + 18, 34));
  }
};

// Code tables, in the form that dot_signed() wants.
#define ORRERY_CODE(x) static_cast<std::uint8_t>((x) + V::kSignedBias)
alignas(16) constexpr std::uint8_t kNonLinear[16] = {
    ORRERY_CODE(-127), ORRERY_CODE(-104), ORRERY_CODE(-83), ORRERY_CODE(-65),
    ORRERY_CODE(-49),  ORRERY_CODE(-35),  ORRERY_CODE(-22), ORRERY_CODE(-10),
    ORRERY_CODE(1),    ORRERY_CODE(13),   ORRERY_CODE(25),  ORRERY_CODE(38),
    ORRERY_CODE(53),   ORRERY_CODE(69),   ORRERY_CODE(89),  ORRERY_CODE(113)};
// Doubled e2m1.
alignas(16) constexpr std::uint8_t kE2m1[16] = {
    ORRERY_CODE(0),  ORRERY_CODE(1),  ORRERY_CODE(2),  ORRERY_CODE(3),
    ORRERY_CODE(4),  ORRERY_CODE(6),  ORRERY_CODE(8),  ORRERY_CODE(12),
    ORRERY_CODE(0),  ORRERY_CODE(-1), ORRERY_CODE(-2), ORRERY_CODE(-3),
    ORRERY_CODE(-4), ORRERY_CODE(-6), ORRERY_CODE(-8), ORRERY_CODE(-12)};
#undef ORRERY_CODE
// The same with 16 for its zero.
alignas(16) constexpr std::uint8_t kE2m1From16[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                                      16, 15, 14, 13, 12, 10, 8,  4};

struct FormatIq4Nl : Block32<18, 0, false> {
  static constexpr bool kSigned = true;
  static constexpr int kNibbleWords = 4;
  template <int quad>
  ORRERY_INLINE V::B bytes(const std::uint8_t* p) {
    return V::load_4x16(p + 2, 18);
  }
  ORRERY_INLINE V::B code(V::B nibbles) { return V::lookup(V::load_q(kNonLinear), nibbles); }
};

// Codes from 4 to 28: products of bytes without signs, two of which fit into 16 bits together.
struct FormatMxfp4 : Block32<17, 16, false> {
  static constexpr int kNibbleWords = 4;

  // 2^(e - 128), because the table is doubled; e = 0 and 1 are subnormal.
  ORRERY_INLINE Scales<1> scales(const Rows& rows) {
    const V::I e = V::and_i(V::headers<17>(rows.at), V::splat_i(255));
    const V::I normal = V::shl<23>(V::sub_i(e, V::splat_i(1)));
    const V::I small = V::shl<21>(V::add_i(e, V::splat_i(1)));
    return {{V::as_float(V::select_lt_i(e, V::splat_i(2), small, normal))}, {V::zero()}};
  }
  template <int quad>
  ORRERY_INLINE V::B bytes(const std::uint8_t* p) {
    return V::load_4x16(p + 1, 17);
  }
  ORRERY_INLINE V::B code(V::B nibbles) { return V::lookup(V::load_q(kE2m1From16), nibbles); }
};

// 64 values with a scale every 16: a block is one quad.
struct FormatNvfp4 {
  static constexpr int kGroup = 16, kQuads = 1, kStepBytes = 36, kZero = 0, kBlockBytes = 0;
  static constexpr int kNibbleWords = 0;
  static constexpr bool kSigned = true, kMin = false, kTwoGroups = false;

  // Unsigned e4m3 with bias 7, halved because the table is doubled; 0x7F means 0.
  ORRERY_INLINE Scales<1> scales(const Rows& rows) {
    const V::I code = V::bytes_to_lanes(rows.words(0));
    const V::I size = V::and_i(code, V::splat_i(0x7F));
    const V::F normal = V::as_float(V::add_i(V::shl<20>(size), V::splat_i(119 << 23)));
    const V::F small = V::mul(V::to_float(size), V::splat(0x1p-10F));
    const V::F d =
        V::as_float(V::select_lt_i(size, V::splat_i(8), V::as_int(small), V::as_int(normal)));
    const V::I is_nan = V::and_i(V::sub_i(code, V::splat_i(0x7F)), V::splat_i(255));
    return {{V::as_float(V::select_lt_i(is_nan, V::splat_i(1), V::splat_i(0), V::as_int(d)))},
            {V::zero()}};
  }
  template <int quad>
  ORRERY_INLINE void codes(const std::uint8_t* p, V::B& low, V::B&) {
    low = V::lookup(V::load_q(kE2m1), V::nibble_halves(V::load_4x8_twice(p + 4)));
  }
};

// codes() of any format.
template <class Format, int quad>
ORRERY_INLINE void codes_of(const std::uint8_t* p, V::B& low, V::B& high) {
  if constexpr (Format::kNibbleWords == 0) {
    Format::template codes<quad>(p, low, high);
  } else {
    const V::B bytes = Format::template bytes<quad>(p);
    if constexpr (Format::kNibbleWords == 4) {
      low = V::low_nibbles(bytes), high = V::high_nibbles(bytes);
    } else {
      V::split_nibbles_k(bytes, low, high);
    }
    low = Format::code(low), high = Format::code(high);
  }
}

}  // namespace
}  // namespace orrery::kernels
