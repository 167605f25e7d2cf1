// What the tests of block kernels share: the tables that can run here, layouts, random data.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/block_kernels.hpp"
#include "kernels/dispatch.hpp"
#include "tensor/decode.hpp"
#include "tensor/dtype.hpp"
#include "tensor/half.hpp"

namespace orrery::kernels {

// Memory as kernels want it: 64-byte aligned.
template <class T>
class Aligned {
 public:
  explicit Aligned(std::size_t n, T value = T{}) : size_(n) {
    data_ = static_cast<T*>(std::aligned_alloc(64, (n * sizeof(T) + 64 + 63) / 64 * 64));
    for (std::size_t i = 0; i < n; ++i) data_[i] = value;
  }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  ~Aligned() { std::free(data_); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_;
  std::size_t size_;
};

inline std::size_t round_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

// Row-major activations (m, n) -> F blocks; padding tokens get `padding`.
inline void fill_f_blocks(const std::vector<float>& rows, int m, int n, float padding, float* f) {
  for (int b = 0; b < (m + 31) / 32; ++b) {
    for (int i = 0; i < n; ++i) {
      for (int t = 0; t < 32; ++t) {
        const int token = 32 * b + t;
        f[(std::size_t(b) * n + i) * 32 + t] =
            token < m ? rows[std::size_t(token) * n + i] : padding;
      }
    }
  }
}

inline float f_value(const float* f, int n, int token, int feature) {
  return f[(std::size_t(token / 32) * n + feature) * 32 + token % 32];
}

// Element (token, feature) of X blocks of n features, from the layout in block_kernels.hpp.
inline std::uint16_t x_bits(const void* x, int n, int token, int feature) {
  const std::size_t steps = (n + 31) / 32;
  const std::size_t at = (std::size_t(token / 32) * steps + feature / 32) * 1024 +
                         token % 32 / 16 * 512 + feature % 32 / 2 * 32 + token % 16 * 2 +
                         feature % 2;
  std::uint16_t bits;
  std::memcpy(&bits, static_cast<const char*>(x) + 2 * at, 2);
  return bits;
}
inline float x_value(const void* x, int n, int token, int feature) {
  return bf16_to_f32(x_bits(x, n, token, feature));
}

inline float rounded_bf16(float v) {
  return bf16_to_f32(f32_to_bf16(v));
}

inline std::vector<float> random_floats(std::size_t n, unsigned seed, float scale = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> out(n);
  for (float& v : out) v = normal(engine);
  return out;
}

// gamma_n of Higham for f32.
inline double gamma_f32(double n) {
  return n * 0x1p-24 / (1.0 - n * 0x1p-24);
}

// Runs a test body for every table that this machine can run; says which it cannot.
class BlockTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    for (const KernelSet& set : available_kernels()) {
      if (std::string(set.blocks->isa) == GetParam()) blocks = set.blocks, row_kernels = set.rows;
    }
    if (blocks == nullptr) GTEST_SKIP() << "this machine cannot run " << GetParam();
    blocks->thread_begin();
  }
  void TearDown() override {
    if (blocks != nullptr) blocks->thread_end();
  }
  const BlockKernels* blocks = nullptr;
  const RowKernels* row_kernels = nullptr;  // of the same set
};

inline const auto kBlockIsas =
    ::testing::Values("emu_dot", "emu_outer", "avx2", "avx512", "avx512_bf16", "amx");
inline std::string isa_name(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

}  // namespace orrery::kernels
