// Class i8 for many activation rows: sixteen weight rows are unpacked once into a panel of bytes,
// which all activation rows then pass over, with a lane for each weight row; or the weight lies in
// such panels already (tensor/packed.hpp). The sums and their order are those of row_i8.hpp.
#pragma once

#include "kernels/body/blocks_256.hpp"
#include "kernels/body/packed_panel.hpp"
#include "kernels/body/row_prefetch.hpp"
#include "kernels/row_kernels.hpp"

namespace orrery::kernels {
namespace {

// Activation rows that go together: they share the unpacking.
constexpr int kMaxActivations = 32;
// Panels that share what is prepared of the activations.
constexpr int kMaxPanels = 8;
constexpr int kSlab = 1024;  // weights along k that are unpacked at once: 16 KiB of codes a panel
static_assert(kSlab == 32 * kPackedSlab);

// Sixteen weight rows along a slab of k, unpacked.
template <int kWeights, bool kHasMin, bool kForSigned>
struct Panel {
  static constexpr int kGroup = kWeights;      // a scale
  static constexpr bool kMin = kHasMin;        // the type has a minimum
  static constexpr bool kSigned = kForSigned;  // codes for dot_signed
  static constexpr int kGroups = kSlab / kGroup;
  static constexpr int kWords = kGroup / 4;  // of a row and group

  alignas(64) std::uint8_t codes[kGroups][kWords][64];  // 4 codes of each of the 16 rows
  alignas(64) float d[kGroups][16];
  alignas(64) float m[kMin ? kGroups : 1][16];

  [[gnu::always_inline]] void fetch(int) const {}
  template <int i>
  [[gnu::always_inline]] V::B word(int g) const {
    return V::load_b(codes[g][i]);
  }
  [[gnu::always_inline]] V::F scale(int g) const { return V::load(d[g]); }
  [[gnu::always_inline]] V::F minimum(int g) const { return V::load(m[g]); }

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
};

// What a group of the activations brings besides its codes.
struct PanelTerms {
  std::int32_t start[kMaxActivations];  // of a sum: what the zero point takes off
  float d[kMaxActivations];
  float c[kMaxActivations];  // d sum(q), where the type has a minimum
};

// Activation rows along the same slab.
template <int kGroup, bool kMin>
struct PanelInput {
  const std::uint8_t* rows = nullptr;  // Q8Layout rows
  std::size_t stride = 0;
  std::size_t q_offset = 0;  // of the slab inside a row
  PanelTerms terms[kSlab / kGroup];

  void load(const MatmulRows& a, int first, int count, int k, int groups, int zero) {
    const Q8Layout layout = q8_layout(static_cast<std::size_t>(a.k));
    rows = static_cast<const std::uint8_t*>(a.x) + static_cast<std::size_t>(first) * a.x_stride;
    stride = a.x_stride;
    q_offset = static_cast<std::size_t>(k);
    for (int t = 0; t < count; ++t) {
      const std::uint8_t* row = rows + static_cast<std::size_t>(t) * stride;
      const auto* d = reinterpret_cast<const float*>(row + layout.d_offset) + k / 32;
      const auto* sums = reinterpret_cast<const std::int16_t*>(row + layout.sums_offset) + k / 16;
      for (int g = 0; g < groups; ++g) {
        const std::int32_t sum = kGroup == 32 ? sums[2 * g] + sums[2 * g + 1] : sums[g];
        PanelTerms& to = terms[g];
        to.start[t] = -zero * sum;
        to.d[t] = d[g * kGroup / 32];
        if constexpr (kMin) to.c[t] = to.d[t] * static_cast<float>(sum);
      }
    }
  }
};

// acc + two words of the weights times two of an activation row. Vocabulary: V, named so that it
// may lack dot_word().
template <class P, class Vocabulary = V>
[[gnu::always_inline]] inline V::I dot_words(V::I acc, V::B low, const std::uint8_t* x_low,
                                             V::B high, const std::uint8_t* x_high) {
  if constexpr (requires { Vocabulary::dot_word(acc, low, x_low); }) {
    return Vocabulary::dot_word(Vocabulary::dot_word(acc, low, x_low), high, x_high);
  } else if constexpr (P::kSigned) {
    acc = V::dot_signed(acc, low, V::repeat_word(x_low));
    return V::dot_signed(acc, high, V::repeat_word(x_high));
  } else {
    return V::dot_pair(acc, low, V::repeat_word(x_low), high, V::repeat_word(x_high));
  }
}

// Words i and i + kWords / 2 of a group times those of kTile activation rows, for all i from `i`
// on.
template <int i, int kTile, class P>
[[gnu::always_inline]] inline void dot_group(const P& w, int g, const std::uint8_t* const* q,
                                             V::I* dots) {
  constexpr int kHalf = P::kWords / 2;
  if constexpr (i < kHalf) {
    const V::B low = w.template word<i>(g), high = w.template word<i + kHalf>(g);
    for (int t = 0; t < kTile; ++t) {
      dots[t] = dot_words<P>(dots[t], low, q[t] + 4 * i, high, q[t] + 4 * (i + kHalf));
    }
    dot_group<i + 1, kTile>(w, g, q, dots);
  }
}

// Partial sum p of kTile activation rows from `first` on, over groups [0, groups) of a panel P.
template <int kTile, class P>
[[gnu::always_inline]] inline void add_partial(const P& w, const PanelInput<P::kGroup, P::kMin>& x,
                                               int first, int p, int groups, V::F* acc) {
  // A pointer each: only an address without an index is one operation with the dot.
  const std::uint8_t* q[kTile];
  for (int t = 0; t < kTile; ++t) {
    q[t] = x.rows + static_cast<std::size_t>(first + t) * x.stride + x.q_offset +
           static_cast<std::size_t>(p * P::kGroup);
  }
  for (int g = p; g < groups; g += 4) {
    w.fetch(g);
    const PanelTerms& terms = x.terms[g];
    V::I dots[kTile];
    for (int t = 0; t < kTile; ++t) dots[t] = V::splat_i(terms.start[first + t]);
    dot_group<0, kTile>(w, g, q, dots);
    const V::F scale = w.scale(g);
    for (int t = 0; t < kTile; ++t) {
      const V::F s = V::mul(scale, V::splat(terms.d[first + t]));
      acc[t] = V::fma(V::to_float(dots[t]), s, acc[t]);
      if constexpr (P::kMin) {
        acc[t] = V::fma(w.minimum(g), V::splat(terms.c[first + t]), acc[t]);
      }
      q[t] += 4 * P::kGroup;
    }
  }
}

// All four of them; `sums` are those of the activation rows.
template <int kTile, class P>
[[gnu::noinline]] void multiply_panel(const P& w, const PanelInput<P::kGroup, P::kMin>& x,
                                      int first, int groups, float (*sums)[4][16]) {
  for (int p = 0; p < 4; ++p) {
    V::F acc[kTile];
    for (int t = 0; t < kTile; ++t) acc[t] = V::load(sums[t][p]);
    add_partial<kTile>(w, x, first, p, groups, acc);
    for (int t = 0; t < kTile; ++t) V::store(sums[t][p], acc[t]);
  }
}

// Panels of a weight in file layout, made when they are needed.
template <class F>
class UnpackedPanels {
 public:
  using Format = F;
  using PanelType = Panel<Format::kGroup, Format::kMin, Format::kSigned>;

  // Weights [k, k + weights) of the sixteen rows from `row` on; those from n on repeat the last.
  const PanelType& at(const MatmulRows& a, int row, int k, int weights) {
    const auto* base =
        static_cast<const std::uint8_t*>(a.w) + static_cast<std::size_t>(row) * a.w_stride;
    const std::size_t first_step = static_cast<std::size_t>(k / kStepWeights) * Format::kStepBytes;
    GroupPrefetch<16> ahead(base, a.w_stride, first_step);
    for (int w = 0; w < weights; w += kStepWeights) {
      const bool cut = weights - w < kStepWeights;
      ahead.fetch(cut ? (weights - w) / Format::kGroup * Format::kBlockBytes : Format::kStepBytes);
      for (int set = 0; set < 4; ++set) {
        Rows rows;
        for (int r = 0; r < 4; ++r) {
          const int at = row + 4 * set + r < a.n ? 4 * set + r : a.n - 1 - row;
          rows.at[r] = base + static_cast<std::size_t>(at) * a.w_stride + first_step +
                       static_cast<std::size_t>(w / kStepWeights) * Format::kStepBytes;
        }
        CutStep<Format> step;
        if (cut) rows = step.copy(rows, (weights - w) / Format::kGroup);
        panel_.template unpack_step<Format>(rows, w / Format::kGroup, set);
      }
    }
    return panel_;
  }

 private:
  static constexpr int kStepWeights = Format::kQuads * 4 * Format::kGroup;
  PanelType panel_;
};

// Panels of a weight in packed layout, where they lie.
template <class F, DType type>
struct PackedPanels {
  using Format = F;
  using PanelType = PackedPanel<F, type>;

  PanelType at(const MatmulRows& a, int row, int k, int weights) const {
    const auto* panel =
        static_cast<const std::uint8_t*>(a.w) + static_cast<std::size_t>(row) * a.w_stride;
    return {panel + static_cast<std::size_t>(k / 32) * PanelType::kRecord.bytes, weights / 32};
  }
};

// Activation rows [first, first + count) times weight rows, up to kMaxPanels panels at a time.
template <class Panels>
class PanelProduct {
 public:
  PanelProduct(const MatmulRows& a, int first, int count) : a_(a), first_(first), count_(count) {}

  // Weight rows [begin, end).
  void run(int begin, int end) {
    const int panels = (end - begin + 15) / 16;
    clear(panels);
    for (int k = 0; k < a_.k; k += kSlab) {
      const int weights = a_.k - k < kSlab ? a_.k - k : kSlab;
      const int groups = weights / Format::kGroup;
      input_.load(a_, first_, count_, k, groups, kZero);
      for (int p = 0; p < panels; ++p) {
        multiply(panels_.at(a_, begin + 16 * p, k, weights), groups, partial_[p]);
      }
    }
    for (int p = 0; p < panels; ++p) {
      const int row = begin + 16 * p;
      store(row, end - row < 16 ? end - row : 16, partial_[p]);
    }
  }

 private:
  using Format = typename Panels::Format;
  using Panel = typename Panels::PanelType;
  using Input = PanelInput<Format::kGroup, Format::kMin>;
  using Sums = float[4][16];  // partial sums of an activation row, a lane for each weight row
  using Multiply = void (*)(const Panel&, const Input&, int first, int groups, Sums* sums);
  static constexpr int kMaxTile = V::kPanelTile;
  static constexpr int tile(int rows) { return rows < kMaxTile ? rows : kMaxTile; }
  static constexpr Multiply kMultiply[8] = {
      multiply_panel<tile(1), Panel>, multiply_panel<tile(2), Panel>,
      multiply_panel<tile(3), Panel>, multiply_panel<tile(4), Panel>,
      multiply_panel<tile(5), Panel>, multiply_panel<tile(6), Panel>,
      multiply_panel<tile(7), Panel>, multiply_panel<tile(8), Panel>};
  static_assert(kMaxTile <= 8);
  static constexpr int kZero = Format::kZero + (Format::kSigned ? V::kSignedBias : 0);

  void clear(int panels) {
    for (int p = 0; p < panels; ++p)
      for (int t = 0; t < count_; ++t)
        for (float* sum :
             {partial_[p][t][0], partial_[p][t][1], partial_[p][t][2], partial_[p][t][3]})
          V::store(sum, V::zero());
  }

  // In tiles of nearly the same size.
  void multiply(const Panel& panel, int groups, Sums* sums) const {
    int done = 0;
    for (int tiles = (count_ + kMaxTile - 1) / kMaxTile; tiles > 0; --tiles) {
      const int rows = (count_ - done + tiles - 1) / tiles;
      kMultiply[rows - 1](panel, input_, done, groups, sums + done);
      done += rows;
    }
  }

  void store(int row, int rows, const Sums* sums) const {
    for (int t = 0; t < count_; ++t) {
      const V::F even = V::add(V::load(sums[t][0]), V::load(sums[t][2]));
      const V::F odd = V::add(V::load(sums[t][1]), V::load(sums[t][3]));
      V::store_partial(a_.y + static_cast<std::size_t>(first_ + t) * a_.y_stride + row,
                       V::add(even, odd), rows);
    }
  }

  const MatmulRows& a_;
  int first_, count_;
  Panels panels_;
  Input input_;
  alignas(64) Sums partial_[kMaxPanels][kMaxActivations];
};

template <class Panels>
void multiply_panels(const MatmulRows& a) {
  constexpr int kRows = 16 * kMaxPanels;
  for (int first = 0; first < a.m; first += kMaxActivations) {
    const int count = a.m - first < kMaxActivations ? a.m - first : kMaxActivations;
    PanelProduct<Panels> product(a, first, count);
    for (int row = 0; row < a.n; row += kRows) {
      product.run(row, a.n - row < kRows ? a.n : row + kRows);
    }
  }
}

}  // namespace
}  // namespace orrery::kernels
