// Searches for scales. A group of weights x is written as s * q with codes q of a grid, or as
// s * q - m with q in [0, top]; w are the costs of squared errors. Loops go over four lanes in a
// fixed order, so that results do not depend on the machine.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace orrery::encode {

using Lanes = float __attribute__((vector_size(16)));

inline Lanes load(const float* p) {
  Lanes v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline Lanes all(float x) {
  return Lanes{x, x, x, x};
}
inline float sum(Lanes v) {
  return (v[0] + v[2]) + (v[1] + v[3]);
}
inline Lanes clamp(Lanes x, float low, float high) {
  x = x < all(low) ? all(low) : x;
  return x > all(high) ? all(high) : x;
}
// To the nearest integer, ties to even; |x| below 2^22.
inline Lanes nearest(Lanes x) {
  constexpr float kShift = 0x1.8p23F;
  return (x + all(kShift)) - all(kShift);
}
// 1 / s, and 0 where that is no finite number: then every code is the one nearest to zero.
inline float inverse(float s) {
  const float i = 1.0F / s;
  return std::isfinite(i) ? i : 0.0F;
}

// The integers low to high.
template <int low, int high>
struct Integers {
  static constexpr float kLow = low, kHigh = high;  // the end with the larger magnitude is kLow
  static constexpr float kStep = 0.2F;              // between candidates, in codes
  static Lanes snap(Lanes t) { return nearest(clamp(t, kLow, kHigh)); }
};

// A table of code values, ascending.
template <const auto& values>
struct Table {
  static constexpr std::size_t kSize = values.size();
  static constexpr float kLow = values[0], kHigh = values[kSize - 1];
  static constexpr float kStep = (kHigh - kLow) / 80.0F;
  static Lanes snap(Lanes t) {
    Lanes q = all(kLow);
    for (std::size_t i = 1; i < kSize; ++i) {
      const float middle = 0.5F * static_cast<float>(values[i - 1] + values[i]);
      q = t > all(middle) ? all(static_cast<float>(values[i])) : q;
    }
    return q;
  }
};

// Codes of n values at scale s, as values of the grid.
template <class Grid>
void snap_group(const float* x, int n, float s, float* q) {
  const Lanes inv = all(inverse(s));
  for (int i = 0; i < n; i += 4) {
    const Lanes v = Grid::snap(load(x + i) * inv);
    std::memcpy(q + i, &v, sizeof v);
  }
}

// sum w (x - s q)^2 with the nearest codes.
template <class Grid>
float scale_error(const float* x, const float* w, int n, float s) {
  const Lanes inv = all(inverse(s)), scale = all(s);
  Lanes error = all(0.0F);
  for (int i = 0; i < n; i += 4) {
    const Lanes v = load(x + i), off = v - scale * Grid::snap(v * inv);
    error += load(w + i) * off * off;
  }
  return sum(error);
}

// What least squares needs to know of codes: sum w x q and sum w q^2.
struct Fit {
  float xq = 0.0F, qq = 0.0F;
  float scale() const { return qq > 0.0F ? xq / qq : 0.0F; }
  float gain() const { return qq > 0.0F ? xq * xq / qq : 0.0F; }  // error without, less with
};

template <class Grid>
Fit fit_codes(const float* x, const float* w, int n, float inv) {
  Lanes xq = all(0.0F), qq = all(0.0F);
  for (int i = 0; i < n; i += 4) {
    const Lanes v = load(x + i), q = Grid::snap(v * all(inv)), wq = load(w + i) * q;
    xq += wq * v;
    qq += wq * q;
  }
  return {sum(xq), sum(qq)};
}

inline float largest(const float* x, int n) {  // by magnitude, with its sign
  float extreme = 0.0F;
  for (int i = 0; i < n; ++i) {
    if (std::abs(x[i]) > std::abs(extreme)) extreme = x[i];
  }
  return extreme;
}

// A scale s for a group, of either sign: both ends of the grid are laid on the largest value, and a
// little below and above it.
template <class Grid>
float search_scale(const float* x, const float* w, int n) {
  constexpr int kBelow = -5, kAbove = 8;
  const float extreme = largest(x, n);
  if (inverse(extreme) == 0.0F) return 0.0F;
  Fit best;
  for (const float end : {Grid::kLow, Grid::kHigh}) {
    for (int k = kBelow; k <= kAbove; ++k) {
      const float reach = end + std::copysign(Grid::kStep * static_cast<float>(k), end);
      const Fit fit = fit_codes<Grid>(x, w, n, reach / extreme);
      if (fit.gain() > best.gain()) best = fit;
    }
  }
  for (int round = 0; round < 2; ++round) {
    const Fit fit = fit_codes<Grid>(x, w, n, inverse(best.scale()));
    if (fit.gain() > best.gain()) best = fit;
  }
  return best.scale();
}

// s * q - m with q in [0, top].
struct Affine {
  float s = 0.0F, m = 0.0F;
};

inline Lanes affine_codes(Lanes x, float inv, float m, float top) {
  return nearest(clamp((x + all(m)) * all(inv), 0.0F, top));
}

inline float affine_error(const float* x, const float* w, int n, Affine a, float top) {
  const float inv = inverse(a.s);
  Lanes error = all(0.0F);
  for (int i = 0; i < n; i += 4) {
    const Lanes v = load(x + i);
    const Lanes off = v + all(a.m) - all(a.s) * affine_codes(v, inv, a.m, top);
    error += load(w + i) * off * off;
  }
  return sum(error);
}

// The least squares of x ~ s q - m for the codes that `a` gives; with `positive`, m >= 0.
inline Affine refit(const float* x, const float* w, int n, Affine a, float top, bool positive) {
  const float inv = inverse(a.s);
  Lanes sw = all(0.0F), sx = sw, sq = sw, sxq = sw, sqq = sw;
  for (int i = 0; i < n; i += 4) {
    const Lanes v = load(x + i), wi = load(w + i), q = affine_codes(v, inv, a.m, top);
    sw += wi;
    sx += wi * v;
    sq += wi * q;
    sxq += wi * v * q;
    sqq += wi * q * q;
  }
  const double w0 = sum(sw), x1 = sum(sx), q1 = sum(sq), xq = sum(sxq), qq = sum(sqq);
  const double det = w0 * qq - q1 * q1;
  if (det <= 1e-9 * w0 * qq) return a;
  double s = (w0 * xq - x1 * q1) / det, m = (q1 * xq - qq * x1) / det;
  if (positive && m < 0.0) {
    m = 0.0;
    s = xq / qq;
  }
  return {static_cast<float>(s), static_cast<float>(m)};
}

// With `positive` for the K types, whose minima are not negative; they cannot say that all values
// lie above zero.
inline Affine search_affine(const float* x, const float* w, int n, float top, bool positive) {
  constexpr int kSteps = 18;
  float low = *std::min_element(x, x + n), high = *std::max_element(x, x + n);
  if (positive) low = std::min(low, 0.0F);
  if (!(high > low)) return {0.0F, -low};
  Affine best{(high - low) / top, -low};
  float least = affine_error(x, w, n, best, top);
  for (int k = 0; k <= kSteps; ++k) {
    const float reach = top - 0.9F + 0.1F * static_cast<float>(k);
    const Affine a = refit(x, w, n, {(high - low) / reach, -low}, top, positive);
    const float error = affine_error(x, w, n, a, top);
    if (error < least) {
      least = error;
      best = a;
    }
  }
  return best;
}

}  // namespace orrery::encode
