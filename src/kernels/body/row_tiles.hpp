// Class i8 for many activation rows on int8 tiles: a tile product makes the exact sums of one scale
// group of 32, sixteen weight rows times up to sixteen activation rows; they are scaled and added
// in vector registers, in the order of the definition (row_kernels.hpp).
//
// Products run some groups ahead: when vectors come to a group, its sums lie in memory.
#pragma once

#include <utility>

#include "kernels/body/row_panel_product.hpp"
#include "kernels/isa/byte_tile_amx.hpp"

namespace orrery::kernels {
namespace {

constexpr int kTileGroup = 32;

// A weight in packed layout as tiles: bytes lie ready, nibbles are widened, a slab at a time.
template <class F, DType type>
class PackedTilePanels {
 public:
  using Format = F;
  struct PanelType {
    using Records = PackedPanel<F, type>;
    static constexpr PackedRecord kRecord = Records::kRecord;
    static constexpr bool kMin = F::kMin, kUnsigned = kRecord.words != 8;
    static constexpr int kTileZero = kUnsigned ? F::kZero : 0;

    const std::uint8_t* records;  // those of a slab, by partial sum
    const std::uint8_t* widened;  // [groups][8][64], in the same order
    int ahead;                    // bytes from a record to what is fetched with it; 0: nothing

    // Of the `at`th group in this order.
    [[gnu::always_inline]] const std::uint8_t* record(int at) const {
      return records + at * kRecord.bytes;
    }
    [[gnu::always_inline]] const std::uint8_t* tile(int at, int) const {
      return kUnsigned ? widened + 512 * at : record(at) + kRecord.codes;
    }
    [[gnu::always_inline]] V::F scale(int at, int) const { return V::load_f16(record(at)); }
    [[gnu::always_inline]] V::F minimum(int at, int) const {
      return V::load_f16(record(at) + kRecord.minimum);
    }
    [[gnu::always_inline]] void fetch(int at) const {
      if (ahead == 0) return;
      for (int i = 0; i < kRecord.bytes; i += 64) __builtin_prefetch(record(at) + ahead + i, 0, 2);
    }
  };
  static constexpr int kAtOnce = 1;

  const PanelType* at(const MatmulRows& a, int row, int k, int weights) {
    const int groups = weights / 32;
    panel_.records = static_cast<const std::uint8_t*>(a.w) +
                     static_cast<std::size_t>(row) * a.w_stride +
                     static_cast<std::size_t>(k / 32) * PanelType::kRecord.bytes;
    panel_.widened = codes_;
    slab_bytes_ = groups * PanelType::kRecord.bytes;
    if constexpr (PanelType::kUnsigned) {
      for (int at = 0; at < groups; ++at) {
        // One record is a slab of its own.
        const typename PanelType::Records record(panel_.record(at), 1);
        widen(record, codes_ + 512 * at, std::make_integer_sequence<int, 8>());
      }
    }
    return &panel_;
  }
  // The first tile of a slab brings in the next slab.
  void fetch_with_tile(int tile, int, int) { panel_.ahead = tile == 0 ? slab_bytes_ : 0; }

 private:
  PanelType panel_;
  int slab_bytes_ = 0;
  alignas(64) std::uint8_t codes_[PanelType::kUnsigned ? kSlab * 16 : 1];

  template <int... i>
  [[gnu::always_inline]] static void widen(const typename PanelType::Records& record,
                                           std::uint8_t* to, std::integer_sequence<int, i...>) {
    (V::store_b(to + 64 * i, record.template word<i>(0)), ...);
  }
};

// Panels of a weight in file layout as tiles.
template <class F>
class UnpackedTilePanels {
 public:
  using Format = F;
  struct PanelType {
    using Unpacked = typename UnpackedPanels<F>::PanelType;
    static_assert(F::kGroup == kTileGroup);
    static constexpr bool kMin = F::kMin, kUnsigned = true;
    static constexpr int kTileZero = F::kZero + (F::kSigned ? V::kSignedBias : 0);

    const Unpacked* panel;

    // Of group g.
    [[gnu::always_inline]] const std::uint8_t* tile(int, int g) const { return panel->codes[g][0]; }
    [[gnu::always_inline]] V::F scale(int, int g) const { return panel->scale(g); }
    [[gnu::always_inline]] V::F minimum(int, int g) const { return panel->minimum(g); }
    [[gnu::always_inline]] void fetch(int at) const { panel->fetch(at); }
  };
  static constexpr int kAtOnce = UnpackedPanels<F>::kAtOnce;

  const PanelType* at(const MatmulRows& a, int row, int k, int weights) {
    const auto* unpacked = panels_.at(a, row, k, weights);
    for (int i = 0; i < kAtOnce; ++i) tiles_[i] = {unpacked + i};
    return tiles_;
  }
  void fetch_with_tile(int tile, int tiles, int groups) {
    panels_.fetch_with_tile(tile, tiles, groups);
  }

 private:
  UnpackedPanels<F> panels_;
  PanelType tiles_[kAtOnce];
};

// Of a group and up to sixteen activation rows.
struct ActivationScales {
  float d[16];
  std::uint32_t term[16];  // as TileInput's: f32 d sum(q), or i32 -zero sum(q)
};

// Activation rows as tiles: their codes, where they lie, and their scales.
struct TileActivations {
  const std::uint8_t* q;
  std::size_t stride;
  const ActivationScales* scales;  // [groups]
};

// A slab: its groups by partial sum.
struct TileSlab {
  int groups;
  bool first;  // of k: sums begin at 0
  std::uint8_t order[kSlab / kTileGroup];
};

template <int kRows, class P>
class Int8Product {
 public:
  [[gnu::always_inline]] Int8Product(const P& w, const TileActivations& x, const TileSlab& slab)
      : w_(w), x_(x), slab_(slab) {}

  // All partial sums of the first `rows` activation rows.
  [[gnu::always_inline]] void run(PanelSums* sums, int rows) {
    for (int at = 0; at < kAhead; ++at) start(at);
    V::F acc[kRows];
    int at = 0;
    for (int p = 0; p < 4; ++p) {
      for (int t = 0; t < kRows; ++t) {
        acc[t] = slab_.first || t >= rows ? V::zero() : V::load(sums[t][p]);
      }
      for (const int end = at + (slab_.groups - p + 3) / 4; at < end; ++at) {
        start(at + kAhead);
        add(at, acc);
      }
      for (int t = 0; t < kRows; ++t)
        if (t < rows) V::store(sums[t][p], acc[t]);
    }
  }

 private:
  using Tile = ByteTile<kRows>;
  // Groups from the start of a product to its use; it is stored when the next one starts.
  static constexpr int kAhead = 3;
  static constexpr int kSlots = kAhead + 1;

  const P w_;
  const TileActivations x_;
  const TileSlab& slab_;
  typename Tile::Sums sums_[kSlots];

  // Stores the product before and starts that of the `at`th group, if there is one.
  [[gnu::always_inline]] void start(int at) {
    Tile::store(sums_[static_cast<unsigned>(at + kAhead) % kSlots]);
    if (at >= slab_.groups) return;
    const int g = slab_.order[at];
    w_.fetch(at);
    Tile::template multiply<P::kUnsigned>(x_.q + g * kTileGroup, x_.stride, w_.tile(at, g));
  }

  [[gnu::always_inline]] void add(int at, V::F (&acc)[kRows]) const {
    const int g = slab_.order[at];
    const ActivationScales& x = x_.scales[g];
    const auto& dots = sums_[static_cast<unsigned>(at) % kSlots].of;
    const V::F d = w_.scale(at, g), magic = V::splat(Tile::kMagicFloat);
    V::F m;
    if constexpr (P::kMin) m = w_.minimum(at, g);
    for (int t = 0; t < kRows; ++t) {
      V::F dot = V::load(reinterpret_cast<const float*>(dots[t]));
      if constexpr (!P::kMin && P::kTileZero != 0) {
        const V::I term = V::splat_i(static_cast<std::int32_t>(x.term[t]));
        dot = V::as_float(V::add_i(V::as_int(dot), term));
      }
      acc[t] = V::fma(V::sub(dot, magic), V::mul(d, V::splat(x.d[t])), acc[t]);
      if constexpr (P::kMin) acc[t] = V::fma(m, V::splat(bits_float(x.term[t])), acc[t]);
    }
  }
};

template <int kRows, class P>
[[gnu::noinline]] void multiply_tiles(const P& w, const TileActivations& x, const TileSlab& slab,
                                      int rows, PanelSums* sums) {
  Int8Product<kRows, P>(w, x, slab).run(sums, rows);
}

// What multiplies tiles of activation rows with panels: int8 tiles, all of as many rows.
template <class Panels>
class Int8Tiles {
 public:
  using Panel = typename Panels::PanelType;
  static constexpr int kMostRows = 16;
  // That are prepared of a slab and all rows: scales, and codes if every tile has too few rows.
  static constexpr int kMostInputBytes =
      kMaxActivations / kMostRows *
      (kSlab / kTileGroup * static_cast<int>(sizeof(ActivationScales)) + kMostRows * kSlab);

  // Whether the tiles of m rows are nearly full; else dot products are as fast.
  static bool pays(int m) {
    const int tiles = (m + kMostRows - 1) / kMostRows;
    return (m + tiles - 1) / tiles > 12;
  }

  Int8Tiles(const MatmulRows& a, int count, int tiles)
      : a_(a),
        layout_(q8_layout(static_cast<std::size_t>(a.k))),
        kernel_(count <= 14 * tiles ? kOf<14> : kOf<16>) {
    kernel_.begin();
  }
  ~Int8Tiles() { before_.load(); }
  Int8Tiles(const Int8Tiles&) = delete;
  Int8Tiles& operator=(const Int8Tiles&) = delete;

  // Scales, and codes where rows must be added.
  int input_bytes(const ActivationTile& tile) const {
    return scale_bytes(tile) + (tile.rows < kernel_.rows ? kernel_.rows * code_bytes(tile) : 0);
  }
  void prepare(const ActivationTile& tile, std::uint8_t* to) {
    for (int g = 0; g < tile.groups; g += 16) {
      load_scales(tile, g, reinterpret_cast<ActivationScales*>(to) + g);
    }
    if (tile.rows == kernel_.rows) return;
    const auto bytes = static_cast<std::size_t>(code_bytes(tile));
    to += scale_bytes(tile);
    for (int t = 0; t < kernel_.rows; ++t, to += bytes) {
      if (t < tile.rows) {
        __builtin_memcpy(to, row(tile, t) + tile.k, bytes);
      } else {
        __builtin_memset(to, 0, bytes);
      }
    }
  }
  // x: what was prepared of the tile; sums: see multiply_panels.
  void multiply(const Panel* w, const ActivationTile& tile, const std::uint8_t* x, PanelSums* sums,
                int stride) {
    const auto* scales = reinterpret_cast<const ActivationScales*>(x);
    const TileActivations activations =
        tile.rows == kernel_.rows
            ? TileActivations{row(tile, 0) + tile.k, a_.x_stride, scales}
            : TileActivations{x + scale_bytes(tile), static_cast<std::size_t>(code_bytes(tile)),
                              scales};
    if (slab_.groups != tile.groups) order(tile.groups);
    slab_.first = tile.k == 0;
    for (int i = 0; i < Panels::kAtOnce; ++i) {
      kernel_.multiply(w[i], activations, slab_, tile.rows, sums + i * stride);
    }
  }

 private:
  struct OfSize {
    int rows;
    void (*begin)();
    void (*multiply)(const Panel& w, const TileActivations& x, const TileSlab& slab, int rows,
                     PanelSums* sums);
  };
  template <int rows>
  static constexpr OfSize kOf = {rows, ByteTile<rows>::begin, multiply_tiles<rows, Panel>};

  const MatmulRows& a_;
  // A step between those of class b16 (block_kernels.hpp, thread_begin) finds their tiles.
  TileConfig before_ = TileConfig::current();
  Q8Layout layout_;
  const OfSize& kernel_;
  TileSlab slab_ = {};

  static int scale_bytes(const ActivationTile& tile) {  // of whole sixteens of groups
    return (tile.groups + 15) / 16 * 16 * static_cast<int>(sizeof(ActivationScales));
  }
  static int code_bytes(const ActivationTile& tile) { return tile.groups * kTileGroup; }
  const std::uint8_t* row(const ActivationTile& tile, int t) const {
    return static_cast<const std::uint8_t*>(a_.x) +
           static_cast<std::size_t>(tile.first + t) * a_.x_stride;
  }

  void order(int groups) {
    std::uint8_t* to = slab_.order;
    for (int p = 0; p < 4; ++p)
      for (int g = p; g < groups; g += 4) *to++ = static_cast<std::uint8_t>(g);
    slab_.groups = groups;
  }

  // Groups [g, g + 16) of a tile; the parts of an operand row are padded to as many.
  void load_scales(const ActivationTile& tile, int g, ActivationScales* to) const {
    alignas(64) float d[16][16] = {}, terms[16][16] = {};  // [row][group]
    const int at = tile.k / kTileGroup + g;
    for (int t = 0; t < tile.rows; ++t) {
      const auto* scales = reinterpret_cast<const float*>(row(tile, t) + layout_.d_offset);
      const auto* sums = reinterpret_cast<const std::int16_t*>(row(tile, t) + layout_.sums_offset);
      for (int i = 0; i < 16; ++i) {
        const int sum = sums[2 * (at + i)] + sums[2 * (at + i) + 1];
        d[t][i] = scales[at + i];
        terms[t][i] = Panel::kMin ? d[t][i] * static_cast<float>(sum)
                                  : bits_float(static_cast<std::uint32_t>(-Panel::kTileZero * sum));
      }
    }
    store_transposed(d, &to->d);
    store_transposed(terms, &to->term);
  }
  // [row][group] to an array of each group.
  template <class Field>
  static void store_transposed(const float (&from)[16][16], Field* first) {
    Words words;
    for (int t = 0; t < 16; ++t) words.row(t) = V::load_b(from[t]);
    words.transpose();
    for (int g = 0; g < 16; ++g) {
      V::store_b(reinterpret_cast<std::uint8_t*>(first) +
                     static_cast<std::size_t>(g) * sizeof(ActivationScales),
                 words.word(g / 4, g % 4));
    }
  }
};

}  // namespace
}  // namespace orrery::kernels
