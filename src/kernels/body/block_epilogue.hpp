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

// The sums of a product and where they go. Pointers are to the first of its rows.
struct ProductEnd {
  const float *sums, *up;  // C; glu: its lower half, else null
  const float *bias, *bias_up;
  const float* residual;
  float* out_f;
  std::uint8_t* out_x;
  float scale;
  unsigned rows;     // that exist
  unsigned feature;  // of X, within a k step
  unsigned units;    // a unit: 16 tokens of two rows
};

// A term or an output: there, not there, or to be looked at.
enum class Term : std::uint8_t { no, yes, look };
template <Term kTerm>
ORRERY_INLINE bool has(const void* p) {
  return kTerm == Term::look ? p != nullptr : kTerm == Term::yes;
}

// What a product ends with. A form without a look has no scale and all of its rows.
template <ActivationKind kActivation, Term kUp, Term kBias, Term kResidual, Term kF, Term kX>
struct Form {
  static constexpr bool kLook = kUp == Term::look, kHalf = kUp == Term::yes;

  // Rows that do not exist are not stored; as the padding of X they are zero.
  ORRERY_INLINE void unit(const ProductEnd& p, unsigned unit) {
    const unsigned row = unit / 2 * 2, half = unit % 2;
    const V::F even = !kLook || row < p.rows ? one(p, row, half) : V::zero();
    const V::F odd = !kLook || row + 1 < p.rows ? one(p, row + 1, half) : V::zero();
    if (has<kX>(p.out_x)) store_x_pair(p.out_x, p.feature + row, half, even, odd);
  }

 private:
  ORRERY_INLINE V::F biased(const float* sums, const float* terms, unsigned at, unsigned row) {
    const V::F y = V::load(sums + at);
    return has<kBias>(terms) ? V::add(y, V::splat(terms[row])) : y;
  }
  ORRERY_INLINE V::F one(const ProductEnd& p, unsigned row, unsigned half) {
    const unsigned at = 32 * row + 16 * half;
    V::F y = activated<kActivation>(biased(p.sums, p.bias, at, row));
    if (has<kUp>(p.up)) y = V::mul(y, factor<kActivation>(biased(p.up, p.bias_up, at, row)));
    if constexpr (kLook) y = V::mul(y, V::splat(p.scale));
    if (has<kResidual>(p.residual)) y = V::add(y, V::load(p.residual + at));
    if (has<kF>(p.out_f)) V::store(p.out_f + at, y);
    return y;
  }
};
template <ActivationKind kActivation>
using AnyForm = Form<kActivation, Term::look, Term::look, Term::look, Term::look, Term::look>;

// The units of a product, some at a call: kAtCall where there are 32, half as many where there are
// 16 of them, which take longer.
template <class Form, int kAtCall>
struct Units {
  static constexpr bool kEarly = false;
  ProductEnd end;
  unsigned next = 0;
  template <class Tile>
  [[gnu::always_inline]] inline void operator()(Tile) {
    if constexpr (Form::kHalf && kAtCall == 1 && Tile::value % 2 != 0) return;
    constexpr int kCount = Form::kHalf ? (kAtCall + 1) / 2 : kAtCall;
#pragma GCC unroll 2
    for (int i = 0; i < kCount; ++i) {
      if (next < end.units) Form::unit(end, next++);
    }
  }
  // (Inlined, as a call would keep all of this in memory.)
  [[gnu::always_inline]] inline void finish() {
    while (next < end.units) Form::unit(end, next++);
  }
};

// The end of the products of a call, each of which may run beside the next product.
class Epilogue {
 public:
  explicit Epilogue(const MatmulBlocks& call) : a_(call), form_(form_of(call)) {}

  // Sums `c` of the rows from `first` of the task and of token block `block`. They must stay until
  // beside() or finish().
  void start(const float* c, int first, int block) {
    const bool glu = a_.w_up != nullptr;
    const std::size_t features = static_cast<std::size_t>(a_.features);
    const std::size_t feature = static_cast<std::size_t>(a_.row + first);
    const std::size_t base = (static_cast<std::size_t>(block) * features + feature) * 32;
    const std::size_t step =
        static_cast<std::size_t>(block) * ((features + 31) / 32) + feature / 32;
    const int most = glu ? 16 : 32;
    const auto from = [](const float* p, std::size_t at) { return p == nullptr ? p : p + at; };
    end_.sums = c;
    end_.up = glu ? c + 16 * 32 : nullptr;
    end_.bias = from(a_.bias, static_cast<std::size_t>(first));
    end_.bias_up = from(a_.bias_up, static_cast<std::size_t>(first));
    end_.residual = from(a_.residual, base);
    end_.out_f = a_.out_f == nullptr ? nullptr : a_.out_f + base;
    end_.out_x =
        a_.out_x == nullptr ? nullptr : static_cast<std::uint8_t*>(a_.out_x) + kXStep * step;
    end_.scale = a_.scale;
    end_.rows = static_cast<unsigned>(a_.n - first < most ? a_.n - first : most);
    end_.feature = static_cast<unsigned>(feature % 32);
    // The last rows fill their k step of X with zeros.
    end_.units = a_.n - first <= most ? 32 - end_.feature : static_cast<unsigned>(most);
    whole_ = end_.units == end_.rows;
  }

  // Whether a product has not ended.
  bool waits() const { return end_.units != 0; }

  // product(between) multiplies; the end of the product before runs beside it, in its calls of
  // between() or then.
  template <int kAtCall, class Product>
  void beside(Product product) {
    switch (end_.units == 0 || !whole_ ? Known::none : form_) {
      case Known::x:
        return run_beside<Form<kNone, kNo, kNo, kNo, kNo, kYes>, kAtCall>(product);
      case Known::f:
        return run_beside<Form<kNone, kNo, kNo, kNo, kYes, kNo>, kAtCall>(product);
      case Known::biased_f:
        return run_beside<Form<kNone, kNo, kYes, kNo, kYes, kNo>, kAtCall>(product);
      case Known::added_f:
        return run_beside<Form<kNone, kNo, kNo, kYes, kYes, kNo>, kAtCall>(product);
      case Known::silu_glu:
        return run_beside<Form<ActivationKind::silu, kYes, kNo, kNo, kNo, kYes>, kAtCall>(product);
      case Known::gelu_glu:
        return run_beside<Form<ActivationKind::gelu_tanh, kYes, kNo, kNo, kNo, kYes>, kAtCall>(
            product);
      case Known::none:
        break;
    }
    NothingBetween nothing;
    product(nothing);
    finish();
  }

  void finish() {
    switch (a_.activation) {
      case ActivationKind::none:
        return run<ActivationKind::none>();
      case ActivationKind::silu:
        return run<ActivationKind::silu>();
      case ActivationKind::gelu_tanh:
        return run<ActivationKind::gelu_tanh>();
      case ActivationKind::gelu_erf:
        return run<ActivationKind::gelu_erf>();
      case ActivationKind::sigmoid:
        return run<ActivationKind::sigmoid>();
      case ActivationKind::swiglu_clamped:
        return run<ActivationKind::swiglu_clamped>();
    }
  }

 private:
  // Forms whose units have few enough instructions to run between tile products: those of most
  // models. The others, which look at every term, run after the product.
  enum class Known : std::uint8_t { none, x, f, biased_f, added_f, silu_glu, gelu_glu };
  static constexpr Term kNo = Term::no, kYes = Term::yes;
  static constexpr ActivationKind kNone = ActivationKind::none;

  static Known form_of(const MatmulBlocks& a) {
    const bool only_x = a.out_f == nullptr && a.out_x != nullptr && a.residual == nullptr;
    const bool only_f = a.out_f != nullptr && a.out_x == nullptr;
    const bool plain = a.bias == nullptr && a.bias_up == nullptr;
    if (a.scale != 1.0F) return Known::none;
    if (a.w_up != nullptr) {
      if (!only_x || !plain) return Known::none;
      if (a.activation == ActivationKind::silu) return Known::silu_glu;
      return a.activation == ActivationKind::gelu_tanh ? Known::gelu_glu : Known::none;
    }
    if (a.activation != kNone) return Known::none;
    if (only_x && plain) return Known::x;
    if (!only_f) return Known::none;
    if (a.residual != nullptr) return plain ? Known::added_f : Known::none;
    return plain ? Known::f : Known::biased_f;
  }

  template <class Form, int kAtCall, class Product>
  void run_beside(Product product) {
    Units<Form, kAtCall> units{end_};
    product(units);
    units.finish();
    end_.units = 0;
  }
  template <ActivationKind kActivation>
  void run() {
    Units<AnyForm<kActivation>, 1>{end_}.finish();
    end_.units = 0;
  }

  const MatmulBlocks& a_;
  const Known form_;
  ProductEnd end_ = {};
  bool whole_ = false;  // no rows are missing
};

}  // namespace
}  // namespace orrery::kernels
