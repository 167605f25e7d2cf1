// Tile vocabulary, dot type, emulated: A is 16 rows x 32 k (row-major), B is 16 pairs of k x 16
// tokens. The sums follow TDPBF16PS: even and odd products apart within a tile, then one addition.
// A product of two bf16 values is exact in f32, so mul and add round as fma does.
#pragma once

#include <cstdint>

#include "kernels/body/block_numbers.hpp"

namespace orrery::kernels {
namespace {

struct Tile {
  static constexpr int kDepth = 32;  // k of one A tile

  template <int C>
  void zero() {
    for (int i = 0; i < 256; ++i) c[C][i] = 0.0F;
  }
  // C tiles: 16 rows of 16 floats, `stride` floats apart.
  template <int C>
  void load(const float* p, int stride) {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) c[C][16 * i + j] = p[i * stride + j];
    }
  }
  template <int C>
  void store(float* p, int stride) const {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) p[i * stride + j] = c[C][16 * i + j];
    }
  }
  // [16 rows][32 k] bf16, 1 KiB. kStream: read once, need not evict others from L1.
  template <int A, bool kStream>
  void load_a(const void* p) {
    const std::uint16_t* source = static_cast<const std::uint16_t*>(p);
    for (int i = 0; i < 512; ++i) a[A][i] = from_bf16(source[i]);
  }
  // [16 pairs][16 tokens][2] bf16, 1 KiB.
  template <int B, bool kStream>
  void load_b(const void* p) {
    const std::uint16_t* source = static_cast<const std::uint16_t*>(p);
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        b[B][32 * i + j] = from_bf16(source[32 * i + 2 * j]);
        b[B][32 * i + 16 + j] = from_bf16(source[32 * i + 2 * j + 1]);
      }
    }
  }
  template <int C, int A, int B>
  void mac() {
    for (int i = 0; i < 16; ++i) {
      float even[16] = {}, odd[16] = {};
      for (int k = 0; k < 32; k += 2) {
        const float first = a[A][32 * i + k], second = a[A][32 * i + k + 1];
        for (int j = 0; j < 16; ++j) {
          even[j] += first * b[B][16 * k + j];
          odd[j] += second * b[B][16 * k + 16 + j];
        }
      }
      for (int j = 0; j < 16; ++j) c[C][16 * i + j] += even[j] + odd[j];
    }
  }
  static void begin() {}
  static void end() {}

  float c[4][256], a[2][512], b[2][512];
};

}  // namespace
}  // namespace orrery::kernels
