// Class i8: four weight rows times up to V::kMaxTile activation rows, at any split the same bits.
//
// Lane 4 g + r of an accumulator is partial sum g of row r: the four partials of the definition are
// the four scale groups of a quad.
#pragma once

#include "kernels/body/blocks_256.hpp"
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
      Format::template codes<quad>(rows.row(2 * pair + r), w_low, w_high);
      for (int t = 0; t < kTile; ++t) {
        if constexpr (Format::kSigned) {
          dots[t][r] = V::dot_signed(V::zero_dots(), w_low, low[t]);
          if constexpr (kWide) dots[t][r] = V::dot_signed(dots[t][r], w_high, high[t]);
        } else {
          dots[t][r] = V::dot(V::zero_dots(), w_low, low[t]);
          if constexpr (kWide) dots[t][r] = V::dot(dots[t][r], w_high, high[t]);
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

// The blocks of a last, cut step (`blocks` of four): lanes of the missing groups keep their value.
// `readable` bytes may be read from the start of the step of the last row.
template <class Format, int kTile>
[[gnu::always_inline]] inline void multiply_cut_step(const Rows& rows, int blocks, bool readable,
                                                     const Activation* x, V::F* acc) {
  V::F whole[kTile];
  for (int t = 0; t < kTile; ++t) whole[t] = acc[t];
  if (readable) {
    multiply_step<Format, kTile>(rows, x, whole);
  } else {
    constexpr int kStride = (Format::kStepBytes + 63) / 64 * 64;
    alignas(64) std::uint8_t copy[4 * kStride] = {};
    std::int32_t index[16];
    Rows cut = {copy, {0, kStride, 2 * kStride, 3 * kStride}, rows.index};
    for (int r = 0; r < 4; ++r) {
      __builtin_memcpy(copy + r * kStride, rows.row(r),
                       static_cast<std::size_t>(blocks * Format::kBlockBytes));
      for (int g = 0; g < 4; ++g) index[4 * g + r] = r * kStride + g * Format::kBlockBytes;
    }
    __builtin_memcpy(&cut.index, index, sizeof index);
    multiply_step<Format, kTile>(cut, x, whole);
  }
  for (int t = 0; t < kTile; ++t) acc[t] = V::first(4 * blocks, whole[t], acc[t]);
}

// Rows [row, row + 4) (those from n on repeat the last) times activation rows [first, first +
// kTile).
template <class Format, int kTile>
void multiply_rows(const MatmulRows& a, int row, int first) {
  constexpr int kStepWeights = Format::kQuads * 4 * Format::kGroup;
  const Q8Layout layout = q8_layout(static_cast<std::size_t>(a.k));
  Rows rows;
  rows.base = static_cast<const std::uint8_t*>(a.w) + static_cast<std::size_t>(row) * a.w_stride;
  std::int32_t index[16];
  for (int r = 0; r < 4; ++r) {
    const int other = row + r < a.n ? r : a.n - 1 - row;
    rows.offset[r] = other * static_cast<std::ptrdiff_t>(a.w_stride);
    for (int g = 0; g < 4; ++g)
      index[4 * g + r] = static_cast<std::int32_t>(rows.offset[r]) + g * Format::kBlockBytes;
  }
  __builtin_memcpy(&rows.index, index, sizeof index);
  Activation x[kTile];
  V::F acc[kTile];
  for (int t = 0; t < kTile; ++t) {
    const auto* p =
        static_cast<const std::uint8_t*>(a.x) + static_cast<std::size_t>(first + t) * a.x_stride;
    x[t] = {reinterpret_cast<const std::int8_t*>(p),
            reinterpret_cast<const float*>(p + layout.d_offset),
            reinterpret_cast<const std::int16_t*>(p + layout.sums_offset)};
    acc[t] = V::zero();
  }
  const int steps = a.k / kStepWeights;
  for (int step = 0; step < steps; ++step) {
    for (int r = 0; r < 4; ++r) __builtin_prefetch(rows.row(r) + 2048);
    multiply_step<Format, kTile>(rows, x, acc);
    rows.base += Format::kStepBytes;
    for (int t = 0; t < kTile; ++t) {
      x[t].q += kStepWeights;
      x[t].d += kStepWeights / 32;
      x[t].sums += kStepWeights / 16;
    }
  }
  if constexpr (Format::kBlockBytes != 0) {
    const int blocks = (a.k - steps * kStepWeights) / Format::kGroup;
    if (blocks != 0) {
      const std::size_t rest = static_cast<std::size_t>(a.n - row - 4) * a.w_stride;
      const bool readable = row + 4 < a.n && rest >= Format::kStepBytes;
      multiply_cut_step<Format, kTile>(rows, blocks, readable, x, acc);
    }
  }
  for (int t = 0; t < kTile; ++t) {
    float y[4];
    V::sum_partials(acc[t], y);
    float* out = a.y + static_cast<std::size_t>(first + t) * a.y_stride + row;
    for (int r = 0; r < 4 && row + r < a.n; ++r) out[r] = y[r];
  }
}

template <class Format>
[[gnu::always_inline]] inline void matmul_i8(const MatmulRows& a) {
  for (int row = 0; row < a.n; row += 4) {
    int first = 0;
    if constexpr (V::kMaxTile >= 4) {
      for (; first + 4 <= a.m; first += 4) multiply_rows<Format, 4>(a, row, first);
    }
    for (; first + 2 <= a.m; first += 2) multiply_rows<Format, 2>(a, row, first);
    if (first < a.m) multiply_rows<Format, 1>(a, row, first);
  }
}

}  // namespace
}  // namespace orrery::kernels
