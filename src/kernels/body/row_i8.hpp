// Class i8: four weight rows times up to V::kMaxTile activation rows, at any split the same bits.
//
// Lane 4 g + r of an accumulator is partial sum g of row r: the four partials of the definition are
// the four scale groups of a quad.
#pragma once

#include "kernels/body/blocks_256.hpp"
#include "kernels/body/row_prefetch.hpp"
#include "kernels/row_kernels.hpp"

namespace orrery::kernels {
namespace {

// One activation row at the current quad.
struct Activation {
  const std::int8_t* q;
  const float* d;
  const std::int16_t* sums;
};

template <class Format, int kTile, int quad>
[[gnu::always_inline]] inline void multiply_quad(const Rows& rows, const Scales<Format::kQuads>& s,
                                                 const Activation* x, V::F* acc) {
  constexpr bool kWide = Format::kGroup == 32;
  constexpr int kWeights = 4 * Format::kGroup;
  V::B low[kTile], high[kTile];
  for (int t = 0; t < kTile; ++t) {
    if constexpr (kWide) {
      V::split_halves(x[t].q + quad * kWeights, low[t], high[t]);
    } else {
      low[t] = V::load_b(x[t].q + quad * kWeights);
    }
  }
  V::I pairs[kTile][2];
  for (int pair = 0; pair < 2; ++pair) {
    V::I dots[kTile][2];
    for (int r = 0; r < 2; ++r) {
      V::B w_low, w_high;
      codes_of<Format, quad>(rows.at[2 * pair + r], w_low, w_high);
      for (int t = 0; t < kTile; ++t) {
        if constexpr (Format::kSigned) {
          dots[t][r] = V::dot_signed(V::zero_dots(), w_low, low[t]);
          if constexpr (kWide) dots[t][r] = V::dot_signed(dots[t][r], w_high, high[t]);
        } else if constexpr (kWide) {
          dots[t][r] = V::dot_pair(V::zero_dots(), w_low, low[t], w_high, high[t]);
        } else {
          dots[t][r] = V::dot(V::zero_dots(), w_low, low[t]);
        }
      }
    }
    for (int t = 0; t < kTile; ++t) pairs[t][pair] = V::reduce_pair(dots[t][0], dots[t][1]);
  }
  constexpr int kZero = Format::kZero + (Format::kSigned ? V::kSignedBias : 0);
  for (int t = 0; t < kTile; ++t) {
    V::I sum = V::reduce_rows(pairs[t][0], pairs[t][1]);
    V::I of_x;
    if constexpr (kZero != 0 || Format::kMin) {
      of_x = kWide ? V::group_sums32(x[t].sums + 8 * quad) : V::group_sums16(x[t].sums + 4 * quad);
    }
    if constexpr (kZero != 0) sum = V::sub_i(sum, V::mul_const<kZero>(of_x));
    const V::F d = kWide ? V::spread4(x[t].d + 4 * quad) : V::spread2(x[t].d + 2 * quad);
    acc[t] = V::fma(V::to_float(sum), V::mul(s.d[quad], d), acc[t]);
    if constexpr (Format::kMin) {
      acc[t] = V::fma(s.m[quad], V::mul(d, V::to_float(of_x)), acc[t]);
    }
  }
}

template <class Format, int kTile>
[[gnu::always_inline]] inline void multiply_step(const Rows& rows, const Activation* x, V::F* acc) {
  const Scales<Format::kQuads> s = Format::scales(rows);
  multiply_quad<Format, kTile, 0>(rows, s, x, acc);
  if constexpr (Format::kQuads > 1) multiply_quad<Format, kTile, 1>(rows, s, x, acc);
  if constexpr (Format::kQuads > 2) {
    multiply_quad<Format, kTile, 2>(rows, s, x, acc);
    multiply_quad<Format, kTile, 3>(rows, s, x, acc);
  }
}

// One call for activation rows [first, first + kTile).
template <class Format, int kTile>
struct Product {
  static constexpr int kStepWeights = Format::kQuads * 4 * Format::kGroup;

  const MatmulRows& a;
  int first;
  Activation start[kTile];

  [[gnu::always_inline]] Product(const MatmulRows& args, int first_row)
      : a(args), first(first_row) {
    const Q8Layout layout = q8_layout(static_cast<std::size_t>(a.k));
    for (int t = 0; t < kTile; ++t) {
      const auto* p =
          static_cast<const std::uint8_t*>(a.x) + static_cast<std::size_t>(first + t) * a.x_stride;
      start[t] = {reinterpret_cast<const std::int8_t*>(p),
                  reinterpret_cast<const float*>(p + layout.d_offset),
                  reinterpret_cast<const std::int16_t*>(p + layout.sums_offset)};
    }
  }

  // Bytes that may be read after the end of the weight row that is the last of a group at `row`.
  [[gnu::always_inline]] std::size_t readable_after(int row) const {
    return row + 4 < a.n ? static_cast<std::size_t>(a.n - row - 4) * a.w_stride : 0;
  }

  // The last, cut step of `blocks` blocks: lanes of the missing groups keep their value. Where the
  // step would read past the last row, its blocks are copied first.
  [[gnu::always_inline]] void multiply_cut_step(Rows rows, int row, int blocks, const Activation* x,
                                                V::F* acc) const {
    CutStep<Format> step;
    if (readable_after(row) < Format::kStepBytes) rows = step.copy(rows, blocks);
    V::F whole[kTile];
    for (int t = 0; t < kTile; ++t) whole[t] = acc[t];
    multiply_step<Format, kTile>(rows, x, whole);
    for (int t = 0; t < kTile; ++t) acc[t] = V::first(4 * blocks, whole[t], acc[t]);
  }

  // Weight rows [row, row + 4); those from n on repeat the last and are not stored.
  [[gnu::always_inline]] void multiply_rows(int row) const {
    const auto* base =
        static_cast<const std::uint8_t*>(a.w) + static_cast<std::size_t>(row) * a.w_stride;
    Rows rows;
    for (int r = 0; r < 4; ++r)
      rows.at[r] = base + static_cast<std::size_t>(row + r < a.n ? r : a.n - 1 - row) * a.w_stride;
    Activation x[kTile];
    V::F acc[kTile];
    for (int t = 0; t < kTile; ++t) x[t] = start[t], acc[t] = V::zero();
    const int steps = a.k / kStepWeights;
    GroupPrefetch<4> ahead(base, a.w_stride);
    for (int step = 0; step < steps; ++step) {
      ahead.fetch(Format::kStepBytes);
      multiply_step<Format, kTile>(rows, x, acc);
      for (int r = 0; r < 4; ++r) rows.at[r] += Format::kStepBytes;
      for (int t = 0; t < kTile; ++t) {
        x[t].q += kStepWeights;
        x[t].d += kStepWeights / 32;
        x[t].sums += kStepWeights / 16;
      }
    }
    if constexpr (Format::kBlockBytes != 0) {
      const int blocks = (a.k - steps * kStepWeights) / Format::kGroup;
      if (blocks != 0) {
        ahead.fetch(blocks * Format::kBlockBytes);
        multiply_cut_step(rows, row, blocks, x, acc);
      }
    }
    for (int t = 0; t < kTile; ++t) {
      float* out = a.y + static_cast<std::size_t>(first + t) * a.y_stride + row;
      if (row + 4 <= a.n) {
        V::sum_partials(acc[t], out);
      } else {
        float y[4];
        V::sum_partials(acc[t], y);
        for (int r = 0; row + r < a.n; ++r) out[r] = y[r];
      }
    }
  }
};

template <class Format, int kTile>
void multiply_tile(const MatmulRows& a, int first, int begin, int end) {
  const Product<Format, kTile> product(a, first);
  for (int row = begin; row < end; row += 4) product.multiply_rows(row);
}

// Weights that stay in L1 or L2 while all activation rows pass over them.
constexpr std::size_t kRowBlockBytes = 16384;

template <class Format>
[[gnu::always_inline]] inline void matmul_i8(const MatmulRows& a) {
  int block = a.n;
  if (a.m > V::kMaxTile) {
    const std::size_t rows = kRowBlockBytes / (a.w_stride + 1) / 4 * 4;
    block = rows < 4 ? 4 : static_cast<int>(rows);
  }
  for (int begin = 0; begin < a.n; begin += block) {
    const int end = a.n - begin < block ? a.n : begin + block;
    int first = 0;
    if constexpr (V::kMaxTile >= 4) {
      for (; first + 4 <= a.m; first += 4) multiply_tile<Format, 4>(a, first, begin, end);
    }
    if constexpr (V::kMaxTile >= 2) {
      for (; first + 2 <= a.m; first += 2) multiply_tile<Format, 2>(a, first, begin, end);
    }
    for (; first < a.m; ++first) multiply_tile<Format, 1>(a, first, begin, end);
  }
}

}  // namespace
}  // namespace orrery::kernels
