// Random weights of any element type as file bytes, with scales of a sane size (random bytes alone
// would be NaN and Inf scales).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tensor/dtype.hpp"
#include "tensor/half.hpp"

namespace orrery::test {

namespace detail {

inline void put_half(std::byte* at, float value) {
  const std::uint16_t bits = f32_to_f16(value);
  std::memcpy(at, &bits, 2);
}

// Offsets of the f16 scales of a block; -1 ends the list.
inline std::vector<int> half_fields(DType type) {
  switch (type) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108};
    case DType::q6_k:
      return {208};
    case DType::mxfp4:
    case DType::nvfp4:
      return {};
    default:
      return {0};
  }
}

}  // namespace detail

// `rows` rows of `cols` elements whose decoded values are of the order of `size`.
inline std::vector<std::byte> random_weights(DType type, std::uint64_t rows, std::uint64_t cols,
                                             float size, std::mt19937& rng) {
  const DTypeInfo& info = dtype_info(type);
  std::vector<std::byte> bytes(rows * row_bytes(type, cols));
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  const std::uint64_t blocks = bytes.size() / info.block_bytes;
  for (std::uint64_t b = 0; b < blocks; ++b) {
    std::byte* block = bytes.data() + b * info.block_bytes;
    if (!info.is_quantized) {
      const float value = size * uniform(rng);
      if (type == DType::f32) std::memcpy(block, &value, 4);
      if (type == DType::f16) detail::put_half(block, value);
      if (type == DType::bf16) {
        const std::uint16_t bits = f32_to_bf16(value);
        std::memcpy(block, &bits, 2);
      }
      continue;
    }
    for (std::uint32_t i = 0; i < info.block_bytes; ++i) block[i] = static_cast<std::byte>(rng());
    // Codes reach about 16 to 128, K scales multiply by up to 63 more.
    float step = size / (info.block_len == 256 ? 512.0F : 12.0F);
    if (type == DType::q8_0 || type == DType::iq4_nl) step = size / 128.0F;
    if (type == DType::q6_k || type == DType::iq4_xs) step = size / 4096.0F;
    for (const int at : detail::half_fields(type)) {
      detail::put_half(block + at, step * (1.0F + 0.5F * uniform(rng)));
    }
    // The minimum of the types that have one as a plain value: weights around zero, as real ones.
    if (type == DType::q4_1) detail::put_half(block + 2, -7.5F * step);
    if (type == DType::q5_1) detail::put_half(block + 2, -15.5F * step);
    const int exponent = static_cast<int>(std::lround(std::log2(size)));
    if (type == DType::mxfp4)
      block[0] = static_cast<std::byte>(125 + exponent + int(rng() % 3) - 1);
    if (type == DType::nvfp4) {
      for (int i = 0; i < 4; ++i) block[i] = static_cast<std::byte>(0x18 + rng() % 16);
    }
  }
  return bytes;
}

// The exponents of a decay ("ssm_a", f32) are below zero, or states would grow without bound.
inline void fit_to_name(const std::string& tensor, std::vector<std::byte>& bytes) {
  if (!tensor.ends_with("ssm_a")) return;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    float value = 0.0F;
    std::memcpy(&value, &bytes[i], 4);
    value = -std::abs(value);
    std::memcpy(&bytes[i], &value, 4);
  }
}

}  // namespace orrery::test
