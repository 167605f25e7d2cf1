// Class i8 for many activation rows: all panels of a weight times all rows, slab after slab of k.
#pragma once

#include "kernels/body/row_panel.hpp"

namespace orrery::kernels {
namespace {

// Activation rows that go together: they share the unpacking.
constexpr int kMaxActivations = 64;
// Partial sums that are kept: activation rows times panels.
constexpr int kMaxSums = 512;
// Bytes of activations that are prepared at once; the part of k that fits is a section.
constexpr int kInputBytes = 163840;

// Activation rows [first, first + rows) along a slab: `groups` from k on.
struct ActivationTile {
  int first, rows, k, groups;
};

// What multiplies tiles of activation rows with panels: dot products.
template <class Panels>
class DotTiles {
 public:
  using Panel = typename Panels::PanelType;
  static constexpr int kMostRows = Panels::kTile;
  // That are prepared of a slab and all rows.
  static constexpr int kMostInputBytes =
      kMaxActivations * (kSlab / Panels::Format::kGroup) *
      TileInput<Panels::Format::kGroup, Panels::Format::kMin>::kRowBytes;

  DotTiles(const MatmulRows& a, int, int) : a_(a) {}
  static int input_bytes(const ActivationTile& tile) {
    return tile.rows * tile.groups * Input::kRowBytes;
  }
  void prepare(const ActivationTile& tile, std::uint8_t* to) const {
    constexpr int kZero = Panels::Format::kZero + (Panels::Format::kSigned ? V::kSignedBias : 0);
    Input::load(a_, tile.first, tile.rows, tile.k, tile.groups, kZero, to);
  }
  // x: what was prepared of the tile; sums: see multiply_panels.
  void multiply(const Panel* w, const ActivationTile& tile, const std::uint8_t* x, PanelSums* sums,
                int stride) const {
    kMultiply[tile.rows - 1](w, x, tile.groups, tile.k == 0, sums, stride);
  }

 private:
  using Input = TileInput<Panels::Format::kGroup, Panels::Format::kMin>;
  using Multiply = void (*)(const Panel*, const std::uint8_t*, int groups, bool first,
                            PanelSums* sums, int stride);
  static constexpr int tile(int rows) { return rows < kMostRows ? rows : kMostRows; }
  template <int rows>
  static constexpr Multiply kFor = multiply_panels<tile(rows), Panels::kAtOnce, Panel>;
  static constexpr Multiply kMultiply[8] = {kFor<1>, kFor<2>, kFor<3>, kFor<4>,
                                            kFor<5>, kFor<6>, kFor<7>, kFor<8>};
  static_assert(kMostRows <= 8);

  const MatmulRows& a_;
};

// Activation rows [first, first + count) times all weight rows. Tiles: what multiplies, DotTiles or
// the like.
template <class Panels, class Tiles>
class PanelProduct {
 public:
  PanelProduct(const MatmulRows& a, int first, int count)
      : a_(a),
        first_(first),
        count_(count),
        tiles_((count + Tiles::kMostRows - 1) / Tiles::kMostRows),
        multiplier_(a, count, tiles_) {
    int bytes = 0;  // of a slab
    each_tile(0, kSlab / Format::kGroup,
              [&](int, const ActivationTile& tile) { bytes += multiplier_.input_bytes(tile); });
    section_ = kInputBytes / bytes * kSlab;
    panels_at_once_ = kMaxSums / count / kAtOnce * kAtOnce;
  }

  void run() {
    const int rows = 16 * panels_at_once_;
    for (int begin = 0; begin < a_.n; begin += rows) {
      const int end = a_.n - begin < rows ? a_.n : begin + rows;
      for (int k = 0; k < a_.k; k += section_) {
        const int k_end = a_.k - k < section_ ? a_.k : k + section_;
        if (begin == 0 || section_ < a_.k) load(k, k_end);
        multiply(begin, end, k, k_end);
      }
    }
  }

 private:
  using Format = typename Panels::Format;
  using Panel = typename Panels::PanelType;
  static constexpr int kAtOnce = Panels::kAtOnce;
  static_assert(Tiles::kMostInputBytes <= kInputBytes);  // a slab at least

  // f(number, tile) for the `groups` from k on: tiles of nearly the same size.
  template <class F>
  [[gnu::always_inline]] void each_tile(int k, int groups, F f) const {
    for (int tile = 0, done = 0; tile < tiles_; ++tile) {
      const int rows = (count_ - done + tiles_ - tile - 1) / (tiles_ - tile);
      f(tile, ActivationTile{first_ + done, rows, k, groups});
      done += rows;
    }
  }
  // f(first weight of a slab, its groups)
  template <class F>
  [[gnu::always_inline]] void each_slab(int k, int k_end, F f) const {
    for (; k < k_end; k += kSlab) {
      f(k, (k_end - k < kSlab ? k_end - k : kSlab) / Format::kGroup);
    }
  }

  // The activations of a section: slabs of tiles.
  void load(int section, int k_end) {
    std::uint8_t* to = input_;
    each_slab(section, k_end, [&](int k, int groups) {
      each_tile(k, groups, [&](int, const ActivationTile& tile) {
        multiplier_.prepare(tile, to);
        to += multiplier_.input_bytes(tile);
      });
    });
  }

  // Weight rows [begin, end) along a section. Sums that are done stay in L1: who needs no others
  // has their place.
  void multiply(int begin, int end, int section, int k_end) {
    const bool all_sections = section == 0 && k_end == a_.k, one_slab = a_.k <= kSlab;
    PanelSums* sums = sums_;
    for (int row = begin; row < end; row += 16 * kAtOnce) {
      const std::uint8_t* x = input_;
      each_slab(section, k_end, [&](int k, int groups) {
        const Panel* w = panels_.at(a_, row, k, groups * Format::kGroup);
        each_tile(k, groups, [&](int number, const ActivationTile& tile) {
          panels_.fetch_with_tile(number, tiles_, groups);
          PanelSums* of_tile = one_slab ? sums : sums + (tile.first - first_);
          multiplier_.multiply(w, tile, x, of_tile, count_);
          if (k + groups * Format::kGroup == a_.k) store(tile, row, end, of_tile);
          x += multiplier_.input_bytes(tile);
        });
      });
      if (!all_sections) sums += kAtOnce * count_;
    }
  }

  void store(const ActivationTile& tile, int row, int end, const PanelSums* sums) const {
    for (int i = 0; i < kAtOnce && row < end; ++i, row += 16, sums += count_) {
      const int rows = a_.n - row < 16 ? a_.n - row : 16;
      float* y = a_.y + static_cast<std::size_t>(tile.first) * a_.y_stride + row;
      for (int t = 0; t < tile.rows; ++t, y += a_.y_stride) {
        const V::F even = V::add(V::load(sums[t][0]), V::load(sums[t][2]));
        const V::F odd = V::add(V::load(sums[t][1]), V::load(sums[t][3]));
        V::store_partial(y, V::add(even, odd), rows);
      }
    }
  }

  const MatmulRows& a_;
  int first_, count_;
  int tiles_;
  Tiles multiplier_;
  int section_;         // weights along k whose activations are prepared at once
  int panels_at_once_;  // whose sums are kept from section to section
  Panels panels_;
  alignas(64) std::uint8_t input_[kInputBytes];
  alignas(64) PanelSums sums_[kMaxSums];
};

template <class Panels, class Tiles = DotTiles<Panels>>
void matmul_panels(const MatmulRows& a) {
  for (int first = 0; first < a.m; first += kMaxActivations) {
    const int count = a.m - first < kMaxActivations ? a.m - first : kMaxActivations;
    PanelProduct<Panels, Tiles>(a, first, count).run();
  }
}

}  // namespace
}  // namespace orrery::kernels
