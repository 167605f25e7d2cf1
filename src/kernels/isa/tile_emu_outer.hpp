// Tile vocabulary, outer-product type, emulated: A is column-major, one pair of k of 16 rows; B is
// one pair of k of 16 tokens (the operands of SME's BFMOPA). One mac adds the products of a pair.
#pragma once

#include <cstdint>

#include "kernels/body/block_numbers.hpp"

namespace orrery::kernels {
namespace {

struct Tile {
  static constexpr int kDepth = 2;  // k of one A operand

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
  // [16 rows][2 k] bf16, 64 bytes. kStream: read once, need not evict others from L1.
  template <int A, bool kStream>
  void load_a(const void* p) {
    split(p, a[A]);
  }
  // [16 tokens][2 k] bf16, 64 bytes.
  template <int B, bool kStream>
  void load_b(const void* p) {
    split(p, b[B]);
  }
  template <int C, int A, int B>
  void mac() {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        c[C][16 * i + j] += a[A][i] * b[B][j] + a[A][16 + i] * b[B][16 + j];
      }
    }
  }
  static void begin() {}
  static void end() {}

  static void split(const void* p, float* out) {
    const std::uint16_t* source = static_cast<const std::uint16_t*>(p);
    for (int i = 0; i < 16; ++i) {
      out[i] = from_bf16(source[2 * i]);
      out[16 + i] = from_bf16(source[2 * i + 1]);
    }
  }

  float c[4][256], a[2][32], b[2][32];
};

}  // namespace
}  // namespace orrery::kernels
