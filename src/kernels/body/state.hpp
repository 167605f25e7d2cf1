// Recurrences of layers with a state. Lanes are columns of S, so that no sum crosses lanes; tokens
// of a call are taken some at a time while a part of S is at hand.
#pragma once

#include "kernels/body/math.hpp"
#include "kernels/body/row_elementwise.hpp"
#include "kernels/state_kernels.hpp"

namespace orrery::kernels {
namespace {

// ln(1 + e^x) = max(x, 0) + 2 artanh(z / (2 + z)), z = e^-|x|, by the series of artanh: the
// argument is at most 1/3.
ORRERY_INLINE V::F softplus(V::F x) {
  const V::F z = exp(V::neg(V::abs(x)));
  const V::F s = V::div(z, V::add(z, V::splat(2.0F)));
  const V::F square = V::mul(s, s);
  V::F p = V::splat(1.0F / 17.0F);
  p = V::fma(p, square, V::splat(1.0F / 15.0F));
  p = V::fma(p, square, V::splat(1.0F / 13.0F));
  p = V::fma(p, square, V::splat(1.0F / 11.0F));
  p = V::fma(p, square, V::splat(1.0F / 9.0F));
  p = V::fma(p, square, V::splat(1.0F / 7.0F));
  p = V::fma(p, square, V::splat(1.0F / 5.0F));
  p = V::fma(p, square, V::splat(1.0F / 3.0F));
  p = V::fma(p, square, V::splat(1.0F));
  return V::fma(V::add(s, s), p, V::max(x, V::zero()));
}

inline void decay(const float* raw, float bias, float a, int n, float* dt, float* factor) {
  const V::F steps = softplus(V::add(V::load_partial(raw, n), V::splat(bias)));
  V::store_partial(dt, steps, n);
  V::store_partial(factor, exp(V::mul(steps, V::splat(a))), n);
}

inline void l2_norm(const float* x, int n, float eps, float scale, float* out) {
  V::F squares = V::zero();
  for_each_vector(n, [&](int i, auto load, auto) {
    const V::F v = load(x + i);
    squares = V::fma(v, v, squares);
  });
  const V::F factor = V::splat(scale / __builtin_sqrtf(V::sum(squares) + eps));
  for_each_vector(
      n, [&](int i, auto load, auto store) { store(out + i, V::mul(load(x + i), factor)); });
}

// Columns [begin, begin + 16 kSlices) of S for the tokens [t, t + kTokens) of a call; `rest` is the
// number of columns from begin on where that is less (kSlices == 1).
struct Columns {
  int begin, rest;
  V::F load(const float* row, int slice) const {
    const float* at = row + begin + 16 * slice;
    return rest < 16 ? V::load_partial(at, rest) : V::load(at);
  }
  void store(float* row, int slice, V::F x) const {
    float* at = row + begin + 16 * slice;
    if (rest < 16) {
      V::store_partial(at, x, rest);
    } else {
      V::store(at, x);
    }
  }
};

template <int kTokens, int kSlices>
[[gnu::always_inline]] inline void scan_part(const StateTokens& a, const float* before, int t,
                                             Columns columns) {
  const StateToken* tokens = a.tokens + t;
  V::F input[kTokens][kSlices], sum[kTokens][kSlices], decays[kTokens];
  for (int i = 0; i < kTokens; ++i) {
    decays[i] = V::splat(tokens[i].decay);
    for (int s = 0; s < kSlices; ++s) {
      input[i][s] = V::mul(columns.load(tokens[i].v, s), V::splat(tokens[i].beta));
      sum[i][s] = V::zero();
    }
  }
  for (int k = 0; k < a.k_dim; ++k) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(k) * a.v_dim;
    for (int s = 0; s < kSlices; ++s) {
      V::F state = before == nullptr ? V::zero() : columns.load(before + row, s);
      for (int i = 0; i < kTokens; ++i) {
        state = V::fma(V::splat(tokens[i].k[k]), input[i][s], V::mul(state, decays[i]));
        sum[i][s] = V::fma(state, V::splat(tokens[i].q[k]), sum[i][s]);
      }
      columns.store(a.after + row, s, state);
    }
  }
  for (int i = 0; i < kTokens; ++i) {
    for (int s = 0; s < kSlices; ++s) {
      const V::F v = columns.load(tokens[i].v, s);
      columns.store(tokens[i].out, s, V::fma(V::splat(a.skip), v, sum[i][s]));
    }
  }
}

template <int kSlices>
[[gnu::always_inline]] inline void delta_part(const StateTokens& a, const float* before, int t,
                                              Columns columns) {
  const StateToken& token = a.tokens[t];
  const V::F decays = V::splat(token.decay);
  V::F known[kSlices], change[kSlices], sum[kSlices];
  for (int s = 0; s < kSlices; ++s) known[s] = sum[s] = V::zero();
  const auto decayed = [&](int k, int s) __attribute__((always_inline)) {
    if (before == nullptr) return V::zero();
    return V::mul(columns.load(before + static_cast<std::ptrdiff_t>(k) * a.v_dim, s), decays);
  };
  for (int k = 0; k < a.k_dim; ++k) {
    const V::F key = V::splat(token.k[k]);
    for (int s = 0; s < kSlices; ++s) known[s] = V::fma(decayed(k, s), key, known[s]);
  }
  for (int s = 0; s < kSlices; ++s) {
    change[s] = V::mul(V::sub(columns.load(token.v, s), known[s]), V::splat(token.beta));
  }
  for (int k = 0; k < a.k_dim; ++k) {
    const V::F key = V::splat(token.k[k]), query = V::splat(token.q[k]);
    for (int s = 0; s < kSlices; ++s) {
      const V::F state = V::fma(key, change[s], decayed(k, s));
      columns.store(a.after + static_cast<std::ptrdiff_t>(k) * a.v_dim, s, state);
      sum[s] = V::fma(state, query, sum[s]);
    }
  }
  for (int s = 0; s < kSlices; ++s) columns.store(token.out, s, sum[s]);
}

// Four slices at once where there are so many: their sums do not wait for each other.
template <class Part4, class Part1>
[[gnu::always_inline]] inline void each_columns(int v_dim, Part4 four, Part1 one) {
  int begin = 0;
  for (; begin + 64 <= v_dim; begin += 64) four(Columns{begin, 16});
  for (; begin < v_dim; begin += 16) one(Columns{begin, v_dim - begin});
}

inline void scan(const StateTokens& a) {
  int t = 0;
  const auto before = [&] { return t == 0 ? a.before : a.after; };
  for (; t + 4 <= a.n; t += 4) {
    const auto part = [&](Columns c) { scan_part<4, 1>(a, before(), t, c); };
    for (int begin = 0; begin < a.v_dim; begin += 16) part(Columns{begin, a.v_dim - begin});
  }
  for (; t < a.n; ++t) {
    each_columns(
        a.v_dim, [&](Columns c) { scan_part<1, 4>(a, before(), t, c); },
        [&](Columns c) { scan_part<1, 1>(a, before(), t, c); });
  }
}

inline void delta(const StateTokens& a) {
  for (int t = 0; t < a.n; ++t) {
    const float* before = t == 0 ? a.before : a.after;
    each_columns(
        a.v_dim, [&](Columns c) { delta_part<4>(a, before, t, c); },
        [&](Columns c) { delta_part<1>(a, before, t, c); });
  }
}

}  // namespace
}  // namespace orrery::kernels
