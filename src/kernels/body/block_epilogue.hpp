// The end of a product of 32 lines x 32 tokens: bias, activation, gate times up, scale, residual,
// and the stores.
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/body/block_layout.hpp"
#include "kernels/body/block_math.hpp"
#include "kernels/body/block_product.hpp"

namespace orrery::kernels {
namespace {

template <ActivationKind kKind>
ORRERY_INLINE V::F activated(V::F x) {
  if constexpr (kKind == ActivationKind::silu) return silu_b16(x);
  if constexpr (kKind == ActivationKind::gelu_tanh) return gelu_tanh_b16(x);
  if constexpr (kKind == ActivationKind::gelu_erf) return gelu_erf(x);
  if constexpr (kKind == ActivationKind::sigmoid) return sigmoid(x);
  if constexpr (kKind == ActivationKind::swiglu_clamped) return clamped_gate(x);
  return x;
}

template <ActivationKind kKind>
ORRERY_INLINE V::F factor(V::F up) {
  if constexpr (kKind == ActivationKind::swiglu_clamped) return clamped_up(up);
  return up;
}

// Cut into small units, so that a later product can run them between its k steps.
class Epilogue {
 public:
  explicit Epilogue(const MatmulBlocks& call) : a_(call) {}

  // Sums `c` of the rows from `first` of the task and of token block `block`. They must stay until
  // the units have run.
  void start(const float* c, int first, int block) {
    const bool glu = a_.w_up != nullptr;
    const std::size_t features = static_cast<std::size_t>(a_.features);
    const std::size_t feature = static_cast<std::size_t>(a_.row + first);
    const std::size_t base = (static_cast<std::size_t>(block) * features + feature) * 32;
    const std::size_t step =
        static_cast<std::size_t>(block) * ((features + 31) / 32) + feature / 32;
    const int most = glu ? 16 : 32;
    c_ = c;
    rows_ = a_.n - first < most ? a_.n - first : most;
    feature_ = static_cast<int>(feature % 32);
    // The last rows fill their k step of X with zeros.
    next_ = 0;
    end_ = a_.n - first <= most ? 32 - feature_ : most;
    up_ = glu ? c + 16 * 32 : nullptr;
    bias_ = a_.bias == nullptr ? nullptr : a_.bias + first;
    bias_up_ = a_.bias_up == nullptr ? nullptr : a_.bias_up + first;
    residual_ = a_.residual == nullptr ? nullptr : a_.residual + base;
    out_f_ = a_.out_f == nullptr ? nullptr : a_.out_f + base;
    out_x_ = a_.out_x == nullptr ? nullptr : static_cast<std::uint8_t*>(a_.out_x) + kXStep * step;
  }

  int left() const { return end_ - next_; }
  // At most `count` units.
  void run(int count) {
    if (next_ == end_) return;
    const int end = next_ + count < end_ ? next_ + count : end_;
    run_to(end);
    next_ = end;
  }
  void finish() { run(left()); }

 private:
  void run_to(int end) const {
    switch (a_.activation) {
      case ActivationKind::none:
        break;
      case ActivationKind::silu:
        return run_as<ActivationKind::silu>(end);
      case ActivationKind::gelu_tanh:
        return run_as<ActivationKind::gelu_tanh>(end);
      case ActivationKind::gelu_erf:
        return run_as<ActivationKind::gelu_erf>(end);
      case ActivationKind::sigmoid:
        return run_as<ActivationKind::sigmoid>(end);
      case ActivationKind::swiglu_clamped:
        return run_as<ActivationKind::swiglu_clamped>(end);
    }
    if (up_ != nullptr || bias_ != nullptr || a_.scale != 1.0F) {
      return run_as<ActivationKind::none>(end);
    }
    store_rows(end, [c = c_](int at, int) { return V::load(c + at); });
  }

  template <ActivationKind kKind>
  void run_as(int end) const {
    const V::F scale = V::splat(a_.scale);
    const float *gate = c_, *up = up_, *bias = bias_, *bias_up = bias_up_;
    const auto biased = [](const float* sums, const float* terms, int at, int row) {
      const V::F y = V::load(sums + at);
      return terms == nullptr ? y : V::add(y, V::splat(terms[row]));
    };
    if (up == nullptr) {
      return store_rows(end, [=](int at, int row) {
        return V::mul(activated<kKind>(biased(gate, bias, at, row)), scale);
      });
    }
    store_rows(end, [=](int at, int row) {
      const V::F y = activated<kKind>(biased(gate, bias, at, row));
      return V::mul(V::mul(y, factor<kKind>(biased(up, bias_up, at, row))), scale);
    });
  }

  // value(at, row): 16 tokens of a row, at offset `at` of c. Rows that do not exist are not stored;
  // as the padding of X they are zero.
  template <class Value>
  void store_rows(int end, Value value) const {
    const float* residual = residual_;
    float* out_f = out_f_;
    std::uint8_t* out_x = out_x_;
    const int rows = rows_, feature = feature_;
    for (int unit = next_; unit < end; ++unit) {
      const int row = unit / 2 * 2, half = unit % 2;
      const auto one = [&](int i) {
        const int at = 32 * (row + i) + 16 * half;
        V::F y = value(at, row + i);
        if (residual != nullptr) y = V::add(y, V::load(residual + at));
        if (out_f != nullptr) V::store(out_f + at, y);
        return y;
      };
      const V::F even = row < rows ? one(0) : V::zero();
      const V::F odd = row + 1 < rows ? one(1) : V::zero();
      if (out_x != nullptr) store_x_pair(out_x, feature + row, half, even, odd);
    }
  }

  const MatmulBlocks& a_;
  int next_ = 0, end_ = 0;  // units that have not run
  const float *c_ = nullptr, *up_ = nullptr;
  int rows_ = 0, feature_ = 0;
  const float *bias_ = nullptr, *bias_up_ = nullptr, *residual_ = nullptr;
  float* out_f_ = nullptr;
  std::uint8_t* out_x_ = nullptr;
};

}  // namespace
}  // namespace orrery::kernels
