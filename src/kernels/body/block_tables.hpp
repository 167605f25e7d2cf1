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
ORRERY_INLINE V::F entries(int first, V::F d, V::F m) {
  return V::add(V::mul(d, V::load(kCodes + first)), m);
}
// Entries of a table of bytes.
ORRERY_INLINE V::F entries(const std::int8_t* table, V::F d) {
  return V::mul(d, V::to_float(widen_i8(reinterpret_cast<const Byte*>(table))));
}

// Types that begin with one or two halves get those from outside: 16 blocks' worth is read at once.
struct TakesHalves {
  static constexpr bool kHalves = true;
};
template <>
struct ShortStore<WeightQ40> : TakesHalves {
  static void store(void* target, const Byte* block, V::F d, V::F) {
    store_nibbles(target, table16(entries(0, -8.0F, d)), block + 2);
  }
};
template <>
struct ShortStore<WeightQ41> : TakesHalves {
  static void store(void* target, const Byte* block, V::F d, V::F m) {
    store_nibbles(target, table16(entries(0, d, m)), block + 4);
  }
};
template <>
struct ShortStore<WeightQ50> : TakesHalves {
  static void store(void* target, const Byte* block, V::F d, V::F) {
    const Table table = table32(entries(0, -16.0F, d), entries(16, -16.0F, d));
    store_five_bits(target, table, block + 6, block + 2);
  }
};
template <>
struct ShortStore<WeightQ51> : TakesHalves {
  static void store(void* target, const Byte* block, V::F d, V::F m) {
    store_five_bits(target, table32(entries(0, d, m), entries(16, d, m)), block + 8, block + 4);
  }
};
template <>
struct ShortStore<WeightQ80> : TakesHalves {
  static void store(void* target, const Byte* block, V::F d, V::F) {
    store_bf16_row(target, V::mul(d, V::to_float(widen_i8(block + 2))),
                   V::mul(d, V::to_float(widen_i8(block + 18))));
  }
};
template <>
struct ShortStore<WeightIq4Nl> : TakesHalves {
  static void store(void* target, const Byte* block, V::F d, V::F) {
    store_nibbles(target, table16(entries(kNonLinear, d)), block + 2);
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

}  // namespace
}  // namespace orrery::kernels
