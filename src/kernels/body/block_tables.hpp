// Shorter ways from file blocks to bf16 panels where the vocabulary can permute 32 words: the
// values are those of unpack, rounded to bf16.
#pragma once

#include "kernels/body/block_unpack_k.hpp"

namespace orrery::kernels {
namespace {

#if defined(ORRERY_VEC_AVX512)

alignas(64) constexpr float kCodes[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                          11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                          22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

// d * (code + zero) and d * code + m of the codes from `first`.
ORRERY_INLINE V::F entries(int first, float zero, V::F d) {
  return V::mul(d, V::add(V::load(kCodes + first), V::splat(zero)));
}
// (The product of a scale of 17 bits and a code of 5 is exact, so that this rounds as a sum does.)
ORRERY_INLINE V::F entries(int first, V::F d, V::F m) {
  return V::fma(d, V::load(kCodes + first), m);
}
// Entries of a table of bytes.
ORRERY_INLINE V::F entries(const std::int8_t* table, V::F d) {
  return V::mul(d, V::to_float(widen_i8(reinterpret_cast<const Byte*>(table))));
}

// Types that begin with one or two halves get those from outside: 16 blocks' worth is read at once.
// kCodesAt, kFifthAt: where a block has its codes and their fifth bits.
template <int kCodes, int kFifth = 0>
struct TakesHalves {
  static constexpr bool kHalves = true, kNibbles = kFifth == 0 && kCodes < 6;
  static constexpr int kCodesAt = kCodes, kFifthAt = kFifth;

  // The halves of 16 blocks, `stride` bytes apart.
  [[gnu::always_inline]] static void headers(const Byte* blocks, std::size_t stride, float* first,
                                             float* second) {
    row_headers(blocks, stride, first, second);
  }
  // Lanes 0, 4, 8, 12, 1, 5, ...
  [[gnu::always_inline]] static V::F every_fourth(V::F a) {
    const __m512i at = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_ps(at, a);
  }
};
// Nibbles: table() has the 16 values.
template <>
struct ShortStore<WeightQ40> : TakesHalves<2> {
  static V::F table(V::F d, V::F) { return entries(0, -8.0F, d); }
};
template <>
struct ShortStore<WeightQ41> : TakesHalves<4> {
  static V::F table(V::F d, V::F m) { return entries(0, d, m); }
};
template <>
struct ShortStore<WeightIq4Nl> : TakesHalves<2> {
  static V::F table(V::F d, V::F) { return entries(kNonLinear, d); }
};
template <>
struct ShortStore<WeightQ50> : TakesHalves<6, 2> {
  static void store(void* target, const Byte* codes, const Byte* fifth, V::F d, V::F) {
    const Table table = table32(entries(0, -16.0F, d), entries(16, -16.0F, d));
    store_five_bits(target, table, codes, fifth);
  }
};
template <>
struct ShortStore<WeightQ51> : TakesHalves<8, 4> {
  static void store(void* target, const Byte* codes, const Byte* fifth, V::F d, V::F m) {
    store_five_bits(target, table32(entries(0, d, m), entries(16, d, m)), codes, fifth);
  }
};
template <>
struct ShortStore<WeightQ80> : TakesHalves<2> {
  static constexpr bool kNibbles = false;
  static void store(void* target, const Byte* codes, const Byte*, V::F d, V::F) {
    store_bf16_row(target, V::mul(d, V::to_float(widen_i8(codes))),
                   V::mul(d, V::to_float(widen_i8(codes + 16))));
  }
};

template <>
struct ShortStore<WeightMxfp4> {
  static void store(void* target, const Byte* block, const Nothing&, int) {
    const V::F d = V::splat(WeightMxfp4::scale(block[0]));
    store_nibbles(target, table16(entries(kE2m1, d)), block + 1);
  }
};
template <>
struct ShortStore<WeightIq4Xs> {
  static void store(void* target, const Byte* block, const GroupScales& s, int j) {
    const Table table = table16(entries(kNonLinear, V::splat(s.scale[j])));
    store_nibbles(target, table, block + 8 + 16 * j);
  }
};
// Two steps share their bytes of codes: j, which is even, and the one behind it.
template <>
struct ShortStore<WeightQ4K> {
  static constexpr bool kPairs = true;
  static void store(void* even, void* odd, const Byte* block, const GroupScales& s, int j) {
    const auto table_of = [&](int step) {
      return entries(0, V::splat(s.scale[step]), V::splat(s.scale[8 + step]));
    };
    store_nibbles_of_64(even, odd, table32(table_of(j), table_of(j + 1)),
                        block + 16 + 32 * (j / 2));
  }
};
template <>
struct ShortStore<WeightQ5K> {
  static void store(void* target, const Byte* block, const GroupScales& s, int j) {
    const V::F d = V::splat(s.scale[j]), m = V::splat(s.scale[8 + j]);
    store_five_bits_of_32(target, table32(entries(0, d, m), entries(16, d, m)),
                          block + 48 + 32 * (j / 2), j % 2, block + 16, j);
  }
};
template <>
struct ShortStore<WeightQ6K> {
  static void store(void* target, const Byte* block, const GroupScales& s, int step) {
    const int n = step / 4, j = step % 4;
    const Byte* low = block + 64 * n + 32 * (j & 1);
    const Byte* high = block + 128 + 32 * n;
    const Lanes2 codes = centred_six_bits(low, j / 2, high, j);
    store_bf16_row(target, V::mul(V::to_float(codes.low), V::splat(s.scale[2 * step])),
                   V::mul(V::to_float(codes.high), V::splat(s.scale[2 * step + 1])));
  }
};

#endif

// 32 weights of a type that takes halves.
template <class W>
ORRERY_INLINE void store_codes(void* target, const Byte* codes, const Byte* fifth, float d,
                               float m) {
  using Store = ShortStore<W>;
  if constexpr (Store::kNibbles) {
    store_nibbles(target, table16(Store::table(V::splat(d), V::splat(m))), codes);
  } else {
    Store::store(target, codes, fifth, V::splat(d), V::splat(m));
  }
}
template <class W>
ORRERY_INLINE void store_block(void* target, const Byte* block, float d, float m) {
  using Store = ShortStore<W>;
  store_codes<W>(target, block + Store::kCodesAt, block + Store::kFifthAt, d, m);
}
// Two blocks, which share the rounding of their tables. Of both stand the first halves at d, the
// second ones at d + 32.
struct TwoBytes {
  const Byte *first, *second;
};
template <class W>
ORRERY_INLINE void store_two(void* first, void* second, TwoBytes codes, TwoBytes fifth,
                             const float* d) {
  using Store = ShortStore<W>;
  if constexpr (Store::kNibbles) {
    const V::F low = Store::table(V::splat(d[0]), V::splat(d[32]));
    const auto table = table32(low, Store::table(V::splat(d[1]), V::splat(d[33])));
    store_nibbles_of_two(first, second, table, codes.first, codes.second);
  } else {
    store_codes<W>(first, codes.first, fifth.first, d[0], d[32]);
    store_codes<W>(second, codes.second, fifth.second, d[1], d[33]);
  }
}

}  // namespace
}  // namespace orrery::kernels
