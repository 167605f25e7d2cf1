// File blocks -> f32 weights, 32 of a row at a time (a k step), scales multiplied in. The value of
// every element is that of orrery::decode_row (tensor/decode.hpp); layouts are those of GGUF.
// A type has kSteps steps to a block of kBytes; open() reads what the steps of a block share.
#pragma once

#include <cstdint>

#include "kernels/isa/widen.hpp"
#include "tensor/dtype.hpp"

namespace orrery::kernels {
namespace {

using Byte = std::uint8_t;

// 32 weights of a row: the first 16, the last 16.
struct Weights {
  V::F low, high;
};

// A shorter way than unpack, for some types; see block_tables.hpp.
template <class W>
struct ShortStore {};

// 32 weights of a step as bf16, 64 bytes.
template <class W>
ORRERY_INLINE void store_weights(void* target, const Byte* block, const typename W::Shared& shared,
                                 int step) {
  if constexpr (requires { ShortStore<W>::store(target, block, shared, step); }) {
    ShortStore<W>::store(target, block, shared, step);
  } else {
    const Weights values = W::unpack(block, shared, step);
    store_bf16_row(target, values.low, values.high);
  }
}

// What the steps of a block share; nothing where a block is one step.
struct Nothing {
  using Shared = Nothing;
  static Shared open(const Byte*) { return {}; }
};

// Plain types are blocks of 32 elements of kElement bytes.
struct WeightF32 : Nothing {
  static constexpr DType kType = DType::f32;
  static constexpr int kSteps = 1, kBytes = 128, kElement = 4;
  static Weights unpack(const Byte* block, const Shared&, int) {
    float w[32];
    __builtin_memcpy(w, block, 128);
    return {V::load(w), V::load(w + 16)};
  }
};

struct WeightF16 : Nothing {
  static constexpr DType kType = DType::f16;
  static constexpr int kSteps = 1, kBytes = 64, kElement = 2;
  static Weights unpack(const Byte* block, const Shared&, int) {
    return {V::load_f16(block), V::load_f16(block + 32)};
  }
};

struct WeightBf16 : Nothing {
  static constexpr DType kType = DType::bf16;
  static constexpr int kSteps = 1, kBytes = 64, kElement = 2;
  static Weights unpack(const Byte* block, const Shared&, int) {
    return {V::load_bf16(block), V::load_bf16(block + 32)};
  }
};

// d * (code + zero)
ORRERY_INLINE V::F scaled(V::I code, int zero, V::F d) {
  return V::mul(d, V::to_float(V::add_i(code, V::splat_i(zero))));
}
// d * code + m
ORRERY_INLINE V::F scaled(V::I code, V::F d, V::F m) {
  return V::add(V::mul(d, V::to_float(code)), m);
}

// The lower nibbles of 16 bytes are values 0 to 15 of a block, the upper ones 16 to 31.
ORRERY_INLINE Lanes2 nibbles(const Byte* codes) {
  const V::I bytes = widen_u8(codes);
  return {V::and_i(bytes, V::splat_i(15)), V::shr<4>(bytes)};
}

// As nibbles, with bit i of the 32 bits at `high` as bit 4 of code i.
ORRERY_INLINE Lanes2 five_bits(const Byte* codes, const Byte* high) {
  const Lanes2 four = nibbles(codes);
  return {V::or_i(four.low, sixteen_where(load_u16(high))),
          V::or_i(four.high, sixteen_where(load_u16(high + 2)))};
}

struct WeightQ40 : Nothing {
  static constexpr DType kType = DType::q4_0;
  static constexpr int kSteps = 1, kBytes = 18, kElement = 0;
  static Weights unpack(const Byte* block, const Shared&, int) {
    const V::F d = splat_half(block);
    const Lanes2 code = nibbles(block + 2);
    return {scaled(code.low, -8, d), scaled(code.high, -8, d)};
  }
};

struct WeightQ41 : Nothing {
  static constexpr DType kType = DType::q4_1;
  static constexpr int kSteps = 1, kBytes = 20, kElement = 0;
  static Weights unpack(const Byte* block, const Shared&, int) {
    const V::F d = splat_half(block), m = splat_half(block + 2);
    const Lanes2 code = nibbles(block + 4);
    return {scaled(code.low, d, m), scaled(code.high, d, m)};
  }
};

struct WeightQ50 : Nothing {
  static constexpr DType kType = DType::q5_0;
  static constexpr int kSteps = 1, kBytes = 22, kElement = 0;
  static Weights unpack(const Byte* block, const Shared&, int) {
    const V::F d = splat_half(block);
    const Lanes2 code = five_bits(block + 6, block + 2);
    return {scaled(code.low, -16, d), scaled(code.high, -16, d)};
  }
};

struct WeightQ51 : Nothing {
  static constexpr DType kType = DType::q5_1;
  static constexpr int kSteps = 1, kBytes = 24, kElement = 0;
  static Weights unpack(const Byte* block, const Shared&, int) {
    const V::F d = splat_half(block), m = splat_half(block + 2);
    const Lanes2 code = five_bits(block + 8, block + 4);
    return {scaled(code.low, d, m), scaled(code.high, d, m)};
  }
};

struct WeightQ80 : Nothing {
  static constexpr DType kType = DType::q8_0;
  static constexpr int kSteps = 1, kBytes = 34, kElement = 0;
  static Weights unpack(const Byte* block, const Shared&, int) {
    const V::F d = splat_half(block);
    return {V::mul(d, V::to_float(widen_i8(block + 2))),
            V::mul(d, V::to_float(widen_i8(block + 18)))};
  }
};

// The code points of IQ4_NL and IQ4_XS, and those of E2M1 (doubled).
alignas(16) constexpr std::int8_t kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};
alignas(16) constexpr std::int8_t kE2m1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                               0, -1, -2, -3, -4, -6, -8, -12};

ORRERY_INLINE Weights looked_up(const std::int8_t* table, const Byte* codes, float scale) {
  const Lanes2 values = lookup_nibbles(table, codes);
  const V::F d = V::splat(scale);
  return {V::mul(d, V::to_float(values.low)), V::mul(d, V::to_float(values.high))};
}

struct WeightIq4Nl : Nothing {
  static constexpr DType kType = DType::iq4_nl;
  static constexpr int kSteps = 1, kBytes = 18, kElement = 0;
  static Weights unpack(const Byte* block, const Shared&, int) {
    return looked_up(kNonLinear, block + 2, half_at(block));
  }
};

struct WeightMxfp4 : Nothing {
  static constexpr DType kType = DType::mxfp4;
  static constexpr int kSteps = 1, kBytes = 17, kElement = 0;
  static Weights unpack(const Byte* block, const Shared&, int) {
    return looked_up(kE2m1, block + 1, scale(block[0]));
  }
  // 2^(e - 128), since the table is doubled; below e = 2 that is an f32 denormal.
  static float scale(std::uint32_t e) { return as_float(e >= 2 ? (e - 1) << 23 : 0x200000U << e); }
};

struct WeightNvfp4 : Nothing {
  static constexpr DType kType = DType::nvfp4;
  static constexpr int kSteps = 2, kBytes = 36, kElement = 0;
  // Groups of 16 share a scale: 8 bytes, the lower nibbles first.
  static Weights unpack(const Byte* block, const Shared&, int step) {
    const Lanes2 values = lookup_groups(kE2m1, block + 4 + 16 * step);
    return {V::mul(V::splat(scale(block[2 * step])), V::to_float(values.low)),
            V::mul(V::splat(scale(block[2 * step + 1])), V::to_float(values.high))};
  }
  // Half of an unsigned E4M3 (bias 7); 0x7F means zero.
  static float scale(std::uint32_t code) {
    const std::uint32_t bits = code & 0x7FU;
    const std::uint32_t exponent = (code >> 3) & 15U;
    const float mantissa = static_cast<float>(code & 7U);
    const float normal = (8.0F + mantissa) * as_float((exponent + 116U) << 23);
    const float value = exponent == 0 ? mantissa * 0x1p-10F : normal;
    return bits == 0x7FU ? 0.0F : value;
  }
};

}  // namespace
}  // namespace orrery::kernels
