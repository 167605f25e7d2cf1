#include "tensor/decode.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.hpp"
#include "tensor/codebooks.hpp"
#include "tensor/half.hpp"

namespace orrery {
namespace {

static_assert(std::endian::native == std::endian::little, "file formats are read in place");

using Byte = std::uint8_t;

float half_at(const Byte* block, std::size_t offset) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, block + offset, 2);
  return f16_to_f32(bits);
}

std::uint32_t u32_at(const Byte* block, std::size_t offset) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, block + offset, 4);
  return bits;
}

// Value i of a 32-value block: values i and i + 16 share a byte.
int nibble(const Byte* codes, int i) {
  return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
}

void decode_q4_0(const Byte* block, float* out) {
  const float d = half_at(block, 0);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(block + 2, i) - 8);
}

void decode_q4_1(const Byte* block, float* out) {
  const float d = half_at(block, 0), m = half_at(block, 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(block + 4, i)) + m;
}

int code_q5(const Byte* codes, std::uint32_t high, int i) {
  return nibble(codes, i) | static_cast<int>((high >> i) & 1U) << 4;
}

void decode_q5_0(const Byte* block, float* out) {
  const float d = half_at(block, 0);
  const std::uint32_t high = u32_at(block, 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(code_q5(block + 6, high, i) - 16);
}

void decode_q5_1(const Byte* block, float* out) {
  const float d = half_at(block, 0), m = half_at(block, 2);
  const std::uint32_t high = u32_at(block, 4);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(code_q5(block + 8, high, i)) + m;
}

void decode_q8_0(const Byte* block, float* out) {
  const float d = half_at(block, 0);
  for (int i = 0; i < 32; ++i)
    out[i] = d * static_cast<float>(std::bit_cast<std::int8_t>(block[2 + i]));
}

void decode_iq4_nl(const Byte* block, float* out) {
  const float d = half_at(block, 0);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kNonLinear[nibble(block + 2, i)]);
}

void decode_mxfp4(const Byte* block, float* out) {
  const float d = std::ldexp(1.0F, block[0] - 128);  // E8M0; -128 because kE2m1 is doubled
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kE2m1[nibble(block + 1, i)]);
}

void decode_nvfp4(const Byte* block, float* out) {
  for (int group = 0; group < 4; ++group) {
    const float d = 0.5F * ue4m3(block[group]);
    const Byte* codes = block + 4 + 8 * group;
    for (int i = 0; i < 16; ++i) {
      const int code = i < 8 ? codes[i] & 15 : codes[i - 8] >> 4;
      out[16 * group + i] = d * static_cast<float>(kE2m1[code]);
    }
  }
}

// In blocks of 256, value i = 128 n + 32 j + l has its two low bits at bit 2j of byte 32 n + l.
int two_bits(const Byte* codes, int i) {
  return (codes[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4))) & 3;
}

void decode_q2_k(const Byte* block, float* out) {
  const float d = half_at(block, 80), dmin = half_at(block, 82);
  for (int i = 0; i < 256; ++i) {
    const Byte scale = block[i / 16];
    const float w = d * static_cast<float>(scale & 15), m = dmin * static_cast<float>(scale >> 4);
    out[i] = w * static_cast<float>(two_bits(block + 16, i)) - m;
  }
}

void decode_q3_k(const Byte* block, float* out) {
  const float d = half_at(block, 108);
  const Byte* scales = block + 96;
  for (int i = 0; i < 256; ++i) {
    const int g = i / 16;
    const int low = (scales[g % 8] >> (4 * (g / 8))) & 15;
    const int high = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
    const float w = d * static_cast<float>((low | high << 4) - 32);
    const int set = (block[i % 32] >> (i / 32)) & 1;
    out[i] = w * static_cast<float>(two_bits(block + 32, i) - (set ? 0 : 4));
  }
}

struct ScaleMin {
  int scale, min;
};

// The 6-bit pairs of Q4_K and Q5_K, group g of 8.
ScaleMin scale_min(const Byte* s, int g) {
  if (g < 4) return {s[g] & 63, s[g + 4] & 63};
  return {(s[g + 4] & 15) | (s[g - 4] >> 6) << 4, (s[g + 4] >> 4) | (s[g] >> 6) << 4};
}

// Q4_K, and Q5_K where `high` is not null: then bit g of high[l] is bit 4 of the code.
void decode_q45_k(const Byte* block, const Byte* high, const Byte* codes, float* out) {
  const float d = half_at(block, 0), dmin = half_at(block, 2);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin pair = scale_min(block + 4, g);
    const float w = d * static_cast<float>(pair.scale), m = dmin * static_cast<float>(pair.min);
    for (int l = 0; l < 32; ++l) {
      int code = (codes[32 * (g / 2) + l] >> (4 * (g % 2))) & 15;
      if (high != nullptr) code |= ((high[l] >> g) & 1) << 4;
      out[32 * g + l] = w * static_cast<float>(code) - m;
    }
  }
}

void decode_q4_k(const Byte* block, float* out) {
  decode_q45_k(block, nullptr, block + 16, out);
}
void decode_q5_k(const Byte* block, float* out) {
  decode_q45_k(block, block + 16, block + 48, out);
}

void decode_q6_k(const Byte* block, float* out) {
  const float d = half_at(block, 208);
  for (int i = 0; i < 256; ++i) {
    const int n = i / 128, j = i / 32 % 4, l = i % 32;
    const int low = (block[64 * n + 32 * (j & 1) + l] >> (j < 2 ? 0 : 4)) & 15;
    const int code = (low | two_bits(block + 128, i) << 4) - 32;
    const float w = d * static_cast<float>(std::bit_cast<std::int8_t>(block[192 + i / 16]));
    out[i] = w * static_cast<float>(code);
  }
}

void decode_iq4_xs(const Byte* block, float* out) {
  const float d = half_at(block, 0);
  const int high = block[2] | block[3] << 8;
  for (int g = 0; g < 8; ++g) {
    const int low = (block[4 + g / 2] >> (4 * (g % 2))) & 15;
    const float w = d * static_cast<float>((low | ((high >> (2 * g)) & 3) << 4) - 32);
    for (int l = 0; l < 32; ++l) {
      out[32 * g + l] = w * static_cast<float>(kNonLinear[nibble(block + 8 + 16 * g, l)]);
    }
  }
}

using DecodeBlock = void (*)(const Byte*, float*);

// Null for plain types and for those that are no weights.
DecodeBlock block_decoder(DType type) {
  switch (type) {
    case DType::q4_0:
      return decode_q4_0;
    case DType::q4_1:
      return decode_q4_1;
    case DType::q5_0:
      return decode_q5_0;
    case DType::q5_1:
      return decode_q5_1;
    case DType::q8_0:
      return decode_q8_0;
    case DType::q2_k:
      return decode_q2_k;
    case DType::q3_k:
      return decode_q3_k;
    case DType::q4_k:
      return decode_q4_k;
    case DType::q5_k:
      return decode_q5_k;
    case DType::q6_k:
      return decode_q6_k;
    case DType::iq4_nl:
      return decode_iq4_nl;
    case DType::iq4_xs:
      return decode_iq4_xs;
    case DType::mxfp4:
      return decode_mxfp4;
    case DType::nvfp4:
      return decode_nvfp4;
    default:
      return nullptr;
  }
}

template <float (*kConvert)(std::uint16_t)>
void decode_halves(const std::byte* source, float* target, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, source + 2 * i, 2);
    target[i] = kConvert(bits);
  }
}

}  // namespace

bool is_decodable(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16 ||
         block_decoder(type) != nullptr;
}

void decode_row(DType type, const std::byte* source, float* target, std::uint64_t n) {
  if (type == DType::f32) {
    std::memcpy(target, source, n * 4);
    return;
  }
  if (type == DType::f16) return decode_halves<f16_to_f32>(source, target, n);
  if (type == DType::bf16) return decode_halves<bf16_to_f32>(source, target, n);
  const DecodeBlock decode = block_decoder(type);
  ORRERY_CHECK(decode != nullptr);
  const DTypeInfo& info = dtype_info(type);
  ORRERY_CHECK(n % info.block_len == 0);
  const Byte* block = reinterpret_cast<const Byte*>(source);
  for (std::uint64_t i = 0; i < n; i += info.block_len) {
    decode(block, target + i);
    block += info.block_bytes;
  }
}

}  // namespace orrery
