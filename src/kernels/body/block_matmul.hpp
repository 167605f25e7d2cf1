// Prefill matmul (class b16). The rows of a task are unpacked once into bf16 panels; then, for
// groups of token blocks and parts of K, products of 32 x 32 are summed in f32. K runs in file
// order for every output, so the bits depend neither on the split into tasks nor on the number of
// tokens.
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/body/block_layout.hpp"
#include "kernels/body/block_product.hpp"
#include "kernels/body/block_unpack.hpp"
#include "kernels/body/math.hpp"

namespace orrery::kernels {
namespace {

inline int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

template <ActivationKind kKind>
ORRERY_INLINE V::F activated(V::F x) {
  if constexpr (kKind == ActivationKind::silu) return silu(x);
  if constexpr (kKind == ActivationKind::gelu_tanh) return gelu_tanh(x);
  if constexpr (kKind == ActivationKind::gelu_erf) return gelu_erf(x);
  return x;
}

// Epilogue of 32 rows x 32 tokens: c (and c_up for glu) -> the outputs of token block `block`.
struct Epilogue {
  const MatmulBlocks& a;

  // `first`: the first row of the 32 within the task.
  void run(const float* c, const float* c_up, int first, int block) const {
    if (a.bias == nullptr && a.activation == ActivationKind::none && c_up == nullptr &&
        a.scale == 1.0F) {
      return store_rows(first, block, [c](int at, int) { return V::load(c + at); });
    }
    switch (a.activation) {
      case ActivationKind::none:
        return run_as<ActivationKind::none>(c, c_up, first, block);
      case ActivationKind::silu:
        return run_as<ActivationKind::silu>(c, c_up, first, block);
      case ActivationKind::gelu_tanh:
        return run_as<ActivationKind::gelu_tanh>(c, c_up, first, block);
      case ActivationKind::gelu_erf:
        return run_as<ActivationKind::gelu_erf>(c, c_up, first, block);
    }
  }

 private:
  template <ActivationKind kKind>
  void run_as(const float* c, const float* c_up, int first, int block) const {
    const V::F scale = V::splat(a.scale);
    const auto biased = [&](const float* sums, const float* bias, int at, int row) {
      const V::F y = V::load(sums + at);
      return bias == nullptr ? y : V::add(y, V::splat(bias[row]));
    };
    if (c_up == nullptr) {
      return store_rows(first, block, [&](int at, int row) {
        return V::mul(activated<kKind>(biased(c, a.bias, at, row)), scale);
      });
    }
    store_rows(first, block, [&](int at, int row) {
      const V::F gate = activated<kKind>(biased(c, a.bias, at, row));
      return V::mul(V::mul(gate, biased(c_up, a.bias_up, at, row)), scale);
    });
  }

  // value(at, row): 16 tokens of row `row` of the task, at offset `at` of c. Rows that do not exist
  // are not stored; as the padding of X they are zero.
  template <class Value>
  void store_rows(int first, int block, Value value) const {
    const int rows = a.n - first < 32 ? a.n - first : 32;
    const std::size_t feature = static_cast<std::size_t>(a.row + first);
    const std::size_t base = (static_cast<std::size_t>(block) * a.features + feature) * 32;
    const std::size_t step =
        static_cast<std::size_t>(block) * ceil_div(a.features, 32) + feature / 32;
    const float* residual = a.residual == nullptr ? nullptr : a.residual + base;
    float* out_f = a.out_f == nullptr ? nullptr : a.out_f + base;
    std::uint8_t* out_x =
        a.out_x == nullptr ? nullptr : static_cast<std::uint8_t*>(a.out_x) + kXStep * step;
    for (int r = 0; r < 32; r += 2) {
      for (int half = 0; half < 2; ++half) {
        const auto one = [&](int i) {
          const int at = 32 * (r + i) + 16 * half;
          V::F y = value(at, first + r + i);
          if (residual != nullptr) y = V::add(y, V::load(residual + at));
          if (out_f != nullptr) V::store(out_f + at, y);
          return y;
        };
        const V::F even = r < rows ? one(0) : V::zero();
        const V::F odd = r + 1 < rows ? one(1) : V::zero();
        if (out_x != nullptr) store_x_pair(out_x, r, half, even, odd);
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
    return panels * (static_cast<std::size_t>(part_steps(ceil_div(k, 32))) * P::kStepBytes + sums);
  }

  template <class W>
  static void run(const MatmulBlocks& a) {
    multiply_all(a, unpack_panel<W>);
  }

 private:
  // 32 rows at `w`, k steps [first, first + count) -> a panel.
  using Unpack = void (*)(const Byte* w, std::size_t stride, int rows, int k, int first, int count,
                          std::uint8_t* panel);

  // Parts of K that keep a panel in L1; whole blocks of every type (8 steps).
  static int part_steps(int steps) { return steps <= kWholeSteps ? steps : P::kPartSteps; }

  // Rows that are missing become zero, and so do k beyond the row's end.
  template <class W>
  static void unpack_panel(const Byte* w, std::size_t stride, int rows, int k, int first, int count,
                           std::uint8_t* panel) {
    const int whole = k / 32 < first + count ? k / 32 : first + count;
    const Byte* block = w + static_cast<std::size_t>(first / W::kSteps) * W::kBytes;
    for (int row = 0; row < rows; ++row, block += stride) {
      const Byte* source = block;
      std::uint8_t* target = panel;
      for (int step = first; step < whole; step += W::kSteps, source += W::kBytes) {
        const typename W::Shared shared = W::open(source);
#pragma GCC unroll 8
        for (int j = 0; j < W::kSteps; ++j, target += P::kStepBytes) {
          const Weights values = W::unpack(source, shared, j);
          P::pack(target, row, values.low, values.high);
        }
      }
      if constexpr (W::kElement != 0) {
        if (whole == first + count) continue;
        Byte tail[W::kBytes] = {};
        __builtin_memcpy(tail, source, W::kElement * (k % 32));
        const Weights values = W::unpack(tail, {}, 0);
        P::pack(target, row, values.low, values.high);
      }
    }
    for (int row = rows; row < 32; ++row) {
      for (int step = 0; step < count; ++step) {
        P::pack(panel + P::kStepBytes * step, row, V::zero(), V::zero());
      }
    }
  }

  // The panels of a part: for glu, gate and up of the same rows side by side.
  static void unpack_part(const MatmulBlocks& a, Unpack unpack, int step, int count,
                          std::uint8_t* panel) {
    for (int first = 0; first < a.n; first += 32) {
      const int rows = a.n - first < 32 ? a.n - first : 32;
      const void* weights[2] = {a.w, a.w_up};
      for (int i = 0; i < (a.w_up != nullptr ? 2 : 1); ++i) {
        const Byte* source = static_cast<const Byte*>(weights[i]) + first * a.w_stride;
        unpack(source, a.w_stride, rows, a.k, step, count, panel);
        panel += static_cast<std::size_t>(count) * P::kStepBytes;
      }
    }
  }

  [[gnu::noinline]] static void multiply_all(const MatmulBlocks& a, Unpack unpack) {
    const int steps = ceil_div(a.k, 32), blocks = ceil_div(a.m, 32), part = part_steps(steps);
    const int panels = ceil_div(a.n, 32) * (a.w_up != nullptr ? 2 : 1);
    std::uint8_t* panel = static_cast<std::uint8_t*>(a.scratch);
    float* sums =
        reinterpret_cast<float*>(panel + static_cast<std::size_t>(panels) * part * P::kStepBytes);
    for (int group = 0; group < blocks; group += kGroup) {
      const int end = blocks - group < kGroup ? blocks : group + kGroup;
      for (int step = 0; step < steps; step += part) {
        const int count = steps - step < part ? steps - step : part;
        if (group == 0 || part < steps) unpack_part(a, unpack, step, count, panel);
        for (int block = group; block < end; ++block) {
          // One part: the sums of a block are used at once and stay in L1.
          float* c = part == steps ? sums : sums + (block - group) * panels * kBlockFloats;
          if (panels == 1) {
            multiply<Stream::x>(a, panel, panels, c, block, step, count);
          } else {
            multiply<Stream::panel>(a, panel, panels, c, block, step, count);
          }
        }
      }
    }
  }

  // All panels of a part with one token block. A single panel stays in L1 and X is streamed;
  // several ones are streamed beside a part of X that stays.
  template <Stream kStream>
  static void multiply(const MatmulBlocks& a, const std::uint8_t* panel, int panels, float* c,
                       int block, int step, int count) {
    const int steps = ceil_div(a.k, 32);
    const std::uint8_t* x = static_cast<const std::uint8_t*>(a.x) +
                            (static_cast<std::size_t>(block) * steps + step) * kXStep;
    const Epilogue epilogue{a};
    const bool glu = a.w_up != nullptr, last = step + count == steps;
    for (int p = 0; p < panels; ++p, c += kBlockFloats) {
      // The same part of the next token block comes from L3 otherwise.
      const std::size_t ahead = p == 0 ? static_cast<std::size_t>(steps) * kXStep : 0;
      P::template multiply<kStream>(panel, x, count, c, step == 0, ahead);
      panel += static_cast<std::size_t>(count) * P::kStepBytes;
      if (!last) continue;
      if (!glu) epilogue.run(c, nullptr, p * 32, block);
      if (glu && p % 2 == 1) epilogue.run(c - kBlockFloats, c, p / 2 * 32, block);
    }
  }
};

}  // namespace
}  // namespace orrery::kernels
