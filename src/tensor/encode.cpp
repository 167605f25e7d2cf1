#include "tensor/encode.hpp"

#include <cmath>
#include <cstring>

#include "base/check.hpp"
#include "tensor/encode_blocks.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t kLongestBlock = 256;

encode::EncodeBlock block_encoder(DType type) {
  for (const auto find : {encode::encoder_of_32, encode::encoder_with_min, encode::encoder_signed,
                          encode::encoder_of_table}) {
    if (const encode::EncodeBlock found = find(type)) return found;
  }
  return nullptr;
}

// What the squared errors of a block cost. A weight's own size says a little of how much it will be
// used; an importance says it of its column. One that is zero throughout says nothing.
void error_weights(const float* x, const float* importance, std::uint32_t n, float* w) {
  float squares = 0.0F, told = 0.0F;
  for (std::uint32_t i = 0; i < n; ++i) {
    squares += x[i] * x[i];
    if (importance != nullptr) told += importance[i];
  }
  const float mean = squares / static_cast<float>(n);
  if (told > 0.0F) {
    for (std::uint32_t i = 0; i < n; ++i) w[i] = importance[i] * std::sqrt(2 * mean + x[i] * x[i]);
  } else {
    const float root = std::sqrt(mean);
    for (std::uint32_t i = 0; i < n; ++i) w[i] = root + std::abs(x[i]);
  }
}

template <std::uint16_t (*kConvert)(float)>
void encode_halves(const float* source, std::byte* target, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint16_t bits = kConvert(source[i]);
    std::memcpy(target + 2 * i, &bits, 2);
  }
}

}  // namespace

bool is_encodable(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16 ||
         block_encoder(type) != nullptr;
}

std::string encodable_types() {
  std::string text;
  for (std::uint32_t id = 0; id < 256; ++id) {
    const std::optional<DType> type = dtype_from_id(id);
    if (!type || !is_encodable(*type)) continue;
    text += (text.empty() ? "" : ", ") + std::string(dtype_info(*type).name);
  }
  return text;
}

void encode_row(DType type, const float* source, const float* importance, std::byte* target,
                std::uint64_t n) {
  if (type == DType::f32) {
    std::memcpy(target, source, n * sizeof(float));
    return;
  }
  if (type == DType::f16) return encode_halves<f32_to_f16>(source, target, n);
  if (type == DType::bf16) return encode_halves<f32_to_bf16>(source, target, n);
  const encode::EncodeBlock encode = block_encoder(type);
  ORRERY_CHECK(encode != nullptr);
  const DTypeInfo& info = dtype_info(type);
  ORRERY_CHECK(n % info.block_len == 0 && info.block_len <= kLongestBlock);
  std::uint8_t* block = reinterpret_cast<std::uint8_t*>(target);
  float w[kLongestBlock];
  for (std::uint64_t i = 0; i < n; i += info.block_len, block += info.block_bytes) {
    error_weights(source + i, importance == nullptr ? nullptr : importance + i, info.block_len, w);
    encode(source + i, w, block);
  }
}

}  // namespace orrery
