// Class i8 for many activation rows: sixteen weight rows are unpacked once into a panel of bytes,
// which all activation rows then pass over, with a lane for each weight row. The sums and their
// order are those of row_i8.hpp.
#pragma once

#include "kernels/body/blocks_256.hpp"
#include "kernels/body/row_prefetch.hpp"
#include "kernels/row_kernels.hpp"

namespace orrery::kernels {
namespace {

// kGroup: weights a scale. kMin: the type has a minimum. kSigned: codes for dot_signed.
template <int kGroup, bool kMin, bool kSigned>
struct Panel {
  static constexpr int kSlab = 1024;  // weights along k at a time: 16 KiB of codes
  static constexpr int kGroups = kSlab / kGroup;
  static constexpr int kWords = kGroup / 4;   // of a row and group
  static constexpr int kMaxActivations = 32;  // that keep partial sums at the same time

  alignas(64) std::uint8_t codes[kGroups][kWords][64];  // 4 codes of each of the 16 rows
  alignas(64) float d[kGroups][16];
  alignas(64) float m[kMin ? kGroups : 1][16];
  alignas(64) float partial[kMaxActivations][4][16];

  void clear(int activations) {
    for (int t = 0; t < activations; ++t)
      for (float* p : {partial[t][0], partial[t][1], partial[t][2], partial[t][3]})
        V::store(p, V::zero());
  }

  // A quad of four rows to groups from `group` on, rows 4 set .. 4 set + 3 of the panel.
  template <class Format, int quad>
  [[gnu::always_inline]] void unpack_quad(const Rows& rows, const Scales<Format::kQuads>& s,
                                          int group, int set) {
    V::B low[4], high[4];
    for (int r = 0; r < 4; ++r) Format::template codes<quad>(rows.at[r], low[r], high[r]);
    std::uint8_t* to = codes[group][0] + 16 * set;
    V::transpose_words(low[0], low[1], low[2], low[3]);
    for (int i = 0; i < 4; ++i) V::store_groups(to + 64 * i, sizeof(codes[0]), low[i]);
    if constexpr (kGroup == 32) {
      V::transpose_words(high[0], high[1], high[2], high[3]);
      for (int i = 0; i < 4; ++i) V::store_groups(to + 64 * (4 + i), sizeof(codes[0]), high[i]);
    }
    V::store_groups(d[group] + 4 * set, sizeof(d[0]), V::as_bytes(s.d[quad]));
    if constexpr (kMin) V::store_groups(m[group] + 4 * set, sizeof(m[0]), V::as_bytes(s.m[quad]));
  }

  template <class Format>
  [[gnu::always_inline]] void unpack_step(const Rows& rows, int group, int set) {
    const Scales<Format::kQuads> s = Format::scales(rows);
    unpack_quad<Format, 0>(rows, s, group, set);
    if constexpr (Format::kQuads > 1) unpack_quad<Format, 1>(rows, s, group + 4, set);
    if constexpr (Format::kQuads > 2) {
      unpack_quad<Format, 2>(rows, s, group + 8, set);
      unpack_quad<Format, 3>(rows, s, group + 12, set);
    }
  }

  // One activation row over a slab.
  struct Activation {
    const std::int8_t* q;
    const float* d;
    alignas(64) std::int32_t start[kGroups];  // of each sum: what the zero point takes off
    alignas(64) float c[kMin ? kGroups : 1];  // d_x sum(q)

    void load(const std::uint8_t* row, const Q8Layout& layout, int k, int groups, int zero) {
      q = reinterpret_cast<const std::int8_t*>(row) + k;
      d = reinterpret_cast<const float*>(row + layout.d_offset) + k / 32;
      const auto* sums = reinterpret_cast<const std::int16_t*>(row + layout.sums_offset) + k / 16;
      for (int g = 0; g < groups; ++g) {
        const std::int32_t sum = kGroup == 32 ? sums[2 * g] + sums[2 * g + 1] : sums[g];
        start[g] = -zero * sum;
        if constexpr (kMin) c[g] = d[g * kGroup / 32] * static_cast<float>(sum);
      }
    }
  };

  // Activation rows of a tile over groups [0, groups); `sums` are their partial sums.
  template <int kTile>
  void multiply(const Activation* x, int groups, float (*sums)[4][16]) const {
    for (int p = 0; p < 4; ++p) {
      V::F acc[kTile];
      for (int t = 0; t < kTile; ++t) acc[t] = V::load(sums[t][p]);
      for (int g = p; g < groups; g += 4) {
        V::I dots[kTile];
        for (int t = 0; t < kTile; ++t) dots[t] = V::splat_i(x[t].start[g]);
        for (int i = 0; i < kWords; ++i) {
          const V::B w = V::load_b(codes[g][i]);
          for (int t = 0; t < kTile; ++t) {
            const V::B q = V::repeat_word(x[t].q + g * kGroup + 4 * i);
            dots[t] = kSigned ? V::dot_signed(dots[t], w, q) : V::dot(dots[t], w, q);
          }
        }
        const V::F scale = V::load(d[g]);
        for (int t = 0; t < kTile; ++t) {
          const V::F s = V::mul(scale, V::splat(x[t].d[g * kGroup / 32]));
          acc[t] = V::fma(V::to_float(dots[t]), s, acc[t]);
          if constexpr (kMin) acc[t] = V::fma(V::load(m[g]), V::splat(x[t].c[g]), acc[t]);
        }
      }
      for (int t = 0; t < kTile; ++t) V::store(sums[t][p], acc[t]);
    }
  }

  void multiply_tile(const Activation* x, int rows, int groups, float (*sums)[4][16]) const {
    switch (rows) {
      case 1:
        return multiply<1>(x, groups, sums);
      case 2:
        return multiply<2>(x, groups, sums);
      case 3:
        return multiply<3>(x, groups, sums);
      case 4:
        return multiply<4>(x, groups, sums);
      case 5:
        return multiply<5>(x, groups, sums);
      case 6:
        return multiply<6>(x, groups, sums);
      case 7:
        return multiply<7>(x, groups, sums);
      default:
        return multiply<kMaxTile>(x, groups, sums);
    }
  }
  static constexpr int kMaxTile = 8;  // activation rows that pass over the panel together

  // y of `rows` weight rows for `count` activation rows.
  void store(float* y, std::size_t y_stride, int rows, int count) const {
    for (int t = 0; t < count; ++t) {
      const auto& p = partial[t];
      const V::F even = V::add(V::load(p[0]), V::load(p[2]));
      const V::F odd = V::add(V::load(p[1]), V::load(p[3]));
      V::store_partial(y + static_cast<std::size_t>(t) * y_stride, V::add(even, odd), rows);
    }
  }
};

// Weight rows [row, row + 16) times activation rows [first, first + count).
template <class Format>
class PanelProduct {
 public:
  PanelProduct(const MatmulRows& a, int first, int count) : a_(a), first_(first), count_(count) {}

  void run(int row) {
    const auto* base =
        static_cast<const std::uint8_t*>(a_.w) + static_cast<std::size_t>(row) * a_.w_stride;
    GroupPrefetch<16> ahead(base, a_.w_stride);
    panel_.clear(count_);
    for (int k = 0; k < a_.k; k += Panel_::kSlab) {
      const int weights = a_.k - k < Panel_::kSlab ? a_.k - k : Panel_::kSlab;
      unpack(row, base, k, weights, ahead);
      multiply(k, weights / Format::kGroup);
    }
    const int rows = a_.n - row < 16 ? a_.n - row : 16;
    panel_.store(a_.y + static_cast<std::size_t>(first_) * a_.y_stride + row, a_.y_stride, rows,
                 count_);
  }

 private:
  using Panel_ = Panel<Format::kGroup, Format::kMin, Format::kSigned>;
  static constexpr int kStepWeights = Format::kQuads * 4 * Format::kGroup;
  static constexpr int kZero = Format::kZero + (Format::kSigned ? V::kSignedBias : 0);

  // Rows from n on repeat the last one.
  void unpack(int row, const std::uint8_t* base, int k, int weights, GroupPrefetch<16>& ahead) {
    for (int w = 0; w < weights; w += kStepWeights) {
      const int step = (k + w) / kStepWeights;
      const bool cut = weights - w < kStepWeights;
      ahead.fetch(cut ? (weights - w) / Format::kGroup * Format::kBlockBytes : Format::kStepBytes);
      for (int set = 0; set < 4; ++set) {
        Rows rows;
        for (int r = 0; r < 4; ++r) {
          const int at = row + 4 * set + r < a_.n ? 4 * set + r : a_.n - 1 - row;
          rows.at[r] = base + static_cast<std::size_t>(at) * a_.w_stride +
                       static_cast<std::size_t>(step) * Format::kStepBytes;
        }
        if (cut) {
          unpack_cut(rows, (weights - w) / Format::kGroup, w / Format::kGroup, set);
        } else {
          panel_.template unpack_step<Format>(rows, w / Format::kGroup, set);
        }
      }
    }
  }

  // A step of fewer than four blocks: copied, because there may be nothing to read behind them.
  void unpack_cut(const Rows& rows, int blocks, int group, int set) {
    constexpr int kStride = (Format::kStepBytes + 63) / 64 * 64;
    alignas(64) std::uint8_t copy[4 * kStride] = {};
    Rows copies;
    for (int r = 0; r < 4; ++r) {
      for (int i = 0; i < blocks * Format::kBlockBytes; ++i) copy[r * kStride + i] = rows.at[r][i];
      copies.at[r] = copy + r * kStride;
    }
    panel_.template unpack_step<Format>(copies, group, set);
  }

  // In tiles of nearly the same size.
  void multiply(int k, int groups) {
    const Q8Layout layout = q8_layout(static_cast<std::size_t>(a_.k));
    int done = 0;
    for (int tiles = (count_ + Panel_::kMaxTile - 1) / Panel_::kMaxTile; tiles > 0; --tiles) {
      const int rows = (count_ - done + tiles - 1) / tiles;
      for (int t = 0; t < rows; ++t) {
        const auto* x = static_cast<const std::uint8_t*>(a_.x) +
                        static_cast<std::size_t>(first_ + done + t) * a_.x_stride;
        tile_[t].load(x, layout, k, groups, kZero);
      }
      panel_.multiply_tile(tile_, rows, groups, panel_.partial + done);
      done += rows;
    }
  }

  const MatmulRows& a_;
  int first_, count_;
  Panel_ panel_;
  typename Panel_::Activation tile_[Panel_::kMaxTile];
};

template <class Format>
void matmul_panels(const MatmulRows& a) {
  constexpr int kMost = Panel<Format::kGroup, Format::kMin, Format::kSigned>::kMaxActivations;
  for (int first = 0; first < a.m; first += kMost) {
    PanelProduct<Format> product(a, first, a.m - first < kMost ? a.m - first : kMost);
    for (int row = 0; row < a.n; row += 16) product.run(row);
  }
}

}  // namespace
}  // namespace orrery::kernels
