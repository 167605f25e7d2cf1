// Random weight rows of every type, with scales of a sane size.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "tensor/dtype.hpp"
#include "tensor/half.hpp"

namespace orrery::kernels {

inline const std::vector<DType>& all_weight_types() {
  static const std::vector<DType> types = {
      DType::f32,  DType::f16,    DType::bf16,   DType::q4_0,  DType::q4_1, DType::q5_0,
      DType::q5_1, DType::q8_0,   DType::q2_k,   DType::q3_k,  DType::q4_k, DType::q5_k,
      DType::q6_k, DType::iq4_nl, DType::iq4_xs, DType::mxfp4, DType::nvfp4};
  return types;
}

class RandomBlocks {
 public:
  explicit RandomBlocks(unsigned seed) : engine_(seed) {}

  // n blocks, elements for plain types.
  std::vector<std::byte> make(DType type, std::size_t n) {
    const std::size_t bytes = dtype_info(type).block_bytes;
    std::vector<std::byte> out(n * bytes);
    for (std::byte& b : out) b = static_cast<std::byte>(engine_() & 255U);
    for (std::size_t i = 0; i < n; ++i) set_scales(type, out.data() + i * bytes);
    return out;
  }

 private:
  float uniform(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(engine_);
  }
  float normal() { return std::normal_distribution<float>()(engine_); }
  void put_half(std::byte* at, float value) {
    const std::uint16_t bits = f32_to_f16(value);
    std::memcpy(at, &bits, 2);
  }

  void set_scales(DType type, std::byte* block) {
    const float d = uniform(-0.1F, 0.1F);
    switch (type) {
      case DType::f32: {
        const float v = normal();
        std::memcpy(block, &v, 4);
        break;
      }
      case DType::f16:
        put_half(block, normal() * (engine_() % 8 == 0 ? 1e-6F : 1.0F));
        break;
      case DType::bf16: {
        const std::uint16_t bits = f32_to_bf16(normal());
        std::memcpy(block, &bits, 2);
        break;
      }
      case DType::q4_1:
      case DType::q5_1:
      case DType::q4_k:
      case DType::q5_k:
        put_half(block, d);
        put_half(block + 2, uniform(-0.1F, 0.1F));
        break;
      case DType::q2_k:
        put_half(block + 80, d);
        put_half(block + 82, uniform(-0.1F, 0.1F));
        break;
      case DType::q3_k:
        put_half(block + 108, d);
        break;
      case DType::q6_k:
        put_half(block + 208, d * 0.01F);
        break;
      case DType::mxfp4:
        block[0] = static_cast<std::byte>(120 + engine_() % 8);
        break;
      case DType::nvfp4:
        for (int i = 0; i < 4; ++i) block[i] = static_cast<std::byte>(engine_() % 64);
        break;
      default:
        put_half(block, d);
        break;
    }
  }

  std::mt19937 engine_;
};

}  // namespace orrery::kernels
