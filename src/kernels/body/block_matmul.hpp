// Prefill matmul (class b16). The rows of a task are unpacked once into bf16 panels; then, for
// groups of token blocks and parts of K, products of 32 x 32 are summed in f32. K runs in file
// order for every output, so the bits depend neither on the split into tasks nor on the number of
// tokens.
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/body/block_product.hpp"
#include "kernels/body/block_unpack.hpp"
#include "kernels/body/math.hpp"

namespace orrery::kernels {
namespace {

inline int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

ORRERY_INLINE V::F activated(ActivationKind kind, V::F x) {
  switch (kind) {
    case ActivationKind::silu:
      return silu(x);
    case ActivationKind::gelu_tanh:
      return gelu_tanh(x);
    case ActivationKind::gelu_erf:
      return gelu_erf(x);
    case ActivationKind::none:
      break;
  }
  return x;
}

// Epilogue of 32 rows x 32 tokens: c (and c_up for glu) -> the outputs of token block `block`.
struct Epilogue {
  const MatmulBlocks& a;

  V::F value(const float* c, const float* c_up, int row, int half) const {
    V::F y = V::load(c + 16 * half);
    if (a.bias != nullptr) y = V::add(y, V::splat(a.bias[row]));
    y = activated(a.activation, y);
    if (c_up != nullptr) {
      V::F up = V::load(c_up + 16 * half);
      if (a.bias_up != nullptr) up = V::add(up, V::splat(a.bias_up[row]));
      y = V::mul(y, up);
    }
    return a.scale == 1.0F ? y : V::mul(y, V::splat(a.scale));
  }

  // `first`: the first row of the 32 within the task.
  void run(const float* c, const float* c_up, int first, int block) const {
    const int rows = a.n - first < 32 ? a.n - first : 32;
    const std::size_t feature = static_cast<std::size_t>(a.row + first);
    const std::size_t base = (static_cast<std::size_t>(block) * a.features + feature) * 32;
    for (int r = 0; r < 32; r += 2) {
      for (int half = 0; half < 2; ++half) {
        V::F y[2] = {V::zero(), V::zero()};
        for (int i = 0; i < 2 && r + i < rows; ++i) {
          const int at = 32 * (r + i);
          y[i] = value(c + at, c_up == nullptr ? nullptr : c_up + at, first + r + i, half);
          const std::size_t out = base + at + 16 * half;
          if (a.residual != nullptr) y[i] = V::add(y[i], V::load(a.residual + out));
          if (a.out_f != nullptr) V::store(a.out_f + out, y[i]);
        }
        if (a.out_x != nullptr) {
          const std::size_t step =
              block * static_cast<std::size_t>(ceil_div(a.features, 32)) + feature / 32;
          std::uint8_t* x = static_cast<std::uint8_t*>(a.out_x) + kXStep * step;
          V::store_bf16_pairs(x + 1024 * half + 32 * r, y[0], y[1]);
        }
      }
    }
  }
};

// P: TileProduct or VectorProduct; kTask: the most weight rows of a task.
template <class P, int kTask>
struct BlockMatmul {
  static constexpr int kGroup = 16;       // token blocks whose partial sums are kept
  static constexpr int kWholeSteps = 20;  // up to this many k steps are one part

  static std::size_t scratch_bytes(int k, bool glu) {
    const std::size_t panels = static_cast<std::size_t>(kTask / 32) * (glu ? 2 : 1);
    const std::size_t sums = kGroup * kBlockFloats * sizeof(float);
    return panels * (static_cast<std::size_t>(ceil_div(k, 32)) * P::kStepBytes + sums);
  }

  template <class W>
  static void run(const MatmulBlocks& a) {
    const bool glu = a.w_up != nullptr;
    const std::size_t panel_bytes = static_cast<std::size_t>(ceil_div(a.k, 32)) * P::kStepBytes;
    std::uint8_t* panel = static_cast<std::uint8_t*>(a.scratch);
    for (int first = 0; first < a.n; first += 32) {
      const int rows = a.n - first < 32 ? a.n - first : 32;
      const std::size_t offset = first * a.w_stride;
      unpack_panel<W>(static_cast<const Byte*>(a.w) + offset, a.w_stride, rows, a.k, panel);
      panel += panel_bytes;
      if (glu) {
        unpack_panel<W>(static_cast<const Byte*>(a.w_up) + offset, a.w_stride, rows, a.k, panel);
        panel += panel_bytes;
      }
    }
    multiply(a, reinterpret_cast<float*>(panel));
  }

 private:
  // 32 rows from `w`; rows that are missing become zero, and so do k beyond the row's end.
  template <class W>
  static void unpack_panel(const Byte* w, std::size_t stride, int rows, int k,
                           std::uint8_t* panel) {
    const int whole = k / 32, rest = k % 32;
    alignas(64) float values[32];
    for (int row = 0; row < rows; ++row, w += stride) {
      for (int step = 0; step < whole; ++step) {
        W::unpack(w, step, values);
        P::pack(panel + static_cast<std::size_t>(P::kStepBytes) * step, row, values);
      }
      if (rest != 0) {  // types of single elements only
        Byte tail[32 * 4] = {};
        if constexpr (W::kBlock == 1) {
          __builtin_memcpy(tail, w + W::kBytes * 32 * whole, W::kBytes * rest);
          W::unpack(tail, 0, values);
          P::pack(panel + static_cast<std::size_t>(P::kStepBytes) * whole, row, values);
        }
      }
    }
    for (int i = 0; i < 32; ++i) values[i] = 0.0F;
    for (int row = rows; row < 32; ++row) {
      for (int step = 0; step < ceil_div(k, 32); ++step) {
        P::pack(panel + static_cast<std::size_t>(P::kStepBytes) * step, row, values);
      }
    }
  }

  // A task of one panel keeps it in L1 and streams X; wider tasks keep a part of X and stream
  // panels.
  [[gnu::noinline]] static void multiply(const MatmulBlocks& a, float* sums) {
    const int panels = ceil_div(a.n, 32) * (a.w_up != nullptr ? 2 : 1);
    if (panels == 1) {
      multiply<Stream::x>(a, sums, panels);
    } else {
      multiply<Stream::panel>(a, sums, panels);
    }
  }

  template <Stream kStream>
  static void multiply(const MatmulBlocks& a, float* sums, int panels) {
    const int steps = ceil_div(a.k, 32), blocks = ceil_div(a.m, 32);
    const int parts = steps <= kWholeSteps ? 1 : ceil_div(steps, P::kPartSteps);
    const int part_steps = ceil_div(steps, parts);
    const std::uint8_t* panel = static_cast<const std::uint8_t*>(a.scratch);
    const std::uint8_t* x = static_cast<const std::uint8_t*>(a.x);
    const Epilogue epilogue{a};
    const bool glu = a.w_up != nullptr;
    for (int group = 0; group < blocks; group += kGroup) {
      const int end = blocks - group < kGroup ? blocks : group + kGroup;
      for (int step = 0; step < steps; step += part_steps) {
        const int count = steps - step < part_steps ? steps - step : part_steps;
        for (int block = group; block < end; ++block) {
          // One part: the sums of a block are used at once and stay in L1.
          float* c = sums + (parts == 1 ? 0 : (block - group) * panels * kBlockFloats);
          const std::uint8_t* xs = x + (static_cast<std::size_t>(block) * steps + step) * kXStep;
          for (int p = 0; p < panels; ++p, c += kBlockFloats) {
            const std::size_t at = static_cast<std::size_t>(p) * steps + step;
            P::template multiply<kStream>(panel + at * P::kStepBytes, xs, count, c, step == 0);
            if (step + count < steps || (glu && p % 2 == 0)) continue;
            if (glu) {
              epilogue.run(c - kBlockFloats, c, p / 2 * 32, block);
            } else {
              epilogue.run(c, nullptr, p * 32, block);
            }
          }
        }
      }
    }
  }
};

}  // namespace
}  // namespace orrery::kernels
