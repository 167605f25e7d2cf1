#include "silicon/problem.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace orrery::silicon {
namespace {

constexpr int kBlock = 32;  // weights of a block of Q8_0 and Q4_0
// Scales of all blocks, as f16: 2^-7 and 2^-3. Weights lie in [-1, 1), so that every code is used.
constexpr std::uint16_t kScale8 = 0x2000, kScale4 = 0x3000;

int code8(float w) {
  return std::clamp(static_cast<int>(std::lrint(w * 128.0F)), -127, 127);
}
int code4(float w) {
  return std::clamp(static_cast<int>(std::lrint(w * 8.0F)), -8, 7);
}

float rounded_bf16(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  bits += 0x7FFFU + (bits >> 16 & 1U);
  return std::bit_cast<float>(bits & 0xFFFF0000U);
}

std::byte* put_scale(std::byte* out, std::uint16_t half) {
  *out++ = static_cast<std::byte>(half & 0xFFU);
  *out++ = static_cast<std::byte>(half >> 8U);
  return out;
}

// A block of 32 weights in the layout of GGUF; returns its end.
std::byte* put_q8_0(const float* w, std::byte* out) {
  out = put_scale(out, kScale8);
  for (int i = 0; i < kBlock; ++i) *out++ = static_cast<std::byte>(code8(w[i]));
  return out;
}
std::byte* put_q4_0(const float* w, std::byte* out) {
  out = put_scale(out, kScale4);
  for (int i = 0; i < kBlock / 2; ++i) {
    const unsigned low = static_cast<unsigned>(code4(w[i]) + 8);
    const unsigned high = static_cast<unsigned>(code4(w[i + kBlock / 2]) + 8);
    *out++ = static_cast<std::byte>(low | high << 4U);
  }
  return out;
}

float multiplied_weight(WeightType type, Precision precision, float w) {
  switch (type) {
    case WeightType::f32:
    case WeightType::bf16:
      return precision == Precision::f32 ? w : rounded_bf16(w);
    case WeightType::int8:
      return static_cast<float>(code8(w)) / 128.0F;
    case WeightType::int4:
      break;
  }
  return static_cast<float>(code4(w)) / 8.0F;
}

void fill(float* out, std::size_t n, std::uint64_t& state) {
  for (std::size_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    out[i] = static_cast<float>(static_cast<std::int32_t>(state >> 32U)) * 0x1p-31F;
  }
}

}  // namespace

std::string_view name_of(WeightType type) {
  static constexpr std::string_view kNames[] = {"f32", "bf16", "int8", "int4"};
  return kNames[static_cast<std::size_t>(type)];
}

DType dtype_of(WeightType type) {
  static constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::q8_0, DType::q4_0};
  return kTypes[static_cast<std::size_t>(type)];
}

bool fits(WeightType type, int k) {
  return type == WeightType::f32 || type == WeightType::bf16 || k % kBlock == 0;
}

Result<Problem> Problem::make(int m, int n, int k, std::uint64_t seed) {
  Problem problem;
  problem.m = m, problem.n = n, problem.k = k;
  const auto rows_of = [k](int rows) {
    return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(k);
  };
  ORRERY_TRY(problem.x_memory, memory::Region::map(rows_of(m) * sizeof(float)));
  ORRERY_TRY(problem.w_memory, memory::Region::map(rows_of(n) * sizeof(float)));
  std::uint64_t state = seed;
  fill(reinterpret_cast<float*>(problem.x_memory.data()), rows_of(m), state);
  fill(reinterpret_cast<float*>(problem.w_memory.data()), rows_of(n), state);
  return problem;
}

Result<memory::Region> Problem::encode(WeightType type, const kernels::RowKernels& rows) const {
  if (type == WeightType::f32) return memory::Region{};
  const std::uint64_t stride = row_bytes(dtype_of(type), static_cast<std::uint64_t>(k));
  ORRERY_TRY(memory::Region encoded, memory::Region::map(stride * static_cast<std::uint64_t>(n)));
  for (int row = 0; row < n; ++row) {
    const float* source = w() + static_cast<std::size_t>(row) * static_cast<std::size_t>(k);
    std::byte* out = encoded.data() + static_cast<std::size_t>(row) * stride;
    if (type == WeightType::bf16) {
      rows.to_bf16(source, out, k);
      continue;
    }
    for (int i = 0; i < k; i += kBlock) {
      out = type == WeightType::int8 ? put_q8_0(source + i, out) : put_q4_0(source + i, out);
    }
  }
  return encoded;
}

Problem::Expected Problem::expected(WeightType type, Precision precision, int x_row,
                                    int w_row) const {
  const float* a = x() + static_cast<std::size_t>(x_row) * static_cast<std::size_t>(k);
  const float* b = w() + static_cast<std::size_t>(w_row) * static_cast<std::size_t>(k);
  double sum = 0, size = 0;
  for (int i = 0; i < k; ++i) {
    const double value = precision == Precision::f32 ? a[i] : rounded_bf16(a[i]);
    const double product = value * multiplied_weight(type, precision, b[i]);
    sum += product;
    size += std::abs(product);
  }
  const double roundings = (k + 4) * 0x1p-24;
  return {sum, roundings / (1.0 - roundings) * size + 1e-30};
}

}  // namespace orrery::silicon
