// Class i8 for many activation rows: sixteen weight rows are unpacked once into a panel of bytes,
// which all activation rows then pass over, with a lane for each weight row; or the weight lies in
// such panels already (tensor/packed.hpp). The sums and their order are those of row_i8.hpp.
//
// With 32 registers two panels go together: an activation is loaded for both, and twice as many
// sums hide how long a dot takes. What is unpacked next is fetched while panels are multiplied,
// because the unpacking alone asks for lines faster than memory gives them.
#pragma once

#include "kernels/body/blocks_256.hpp"
#include "kernels/body/packed_panel.hpp"
#include "kernels/row_kernels.hpp"

namespace orrery::kernels {
namespace {

// Weights along k that are unpacked at once: 16 KiB of codes a panel.
constexpr int kSlab = 1024;
static_assert(kSlab == 32 * kPackedSlab);

// What is fetched while panels are multiplied, so much with each group of each panel.
struct PanelFetch {
  const std::uint8_t* at = nullptr;
  int lines = 0;

  [[gnu::always_inline]] void run(int g) const {
    const std::uint8_t* line = at + g * lines * kLine;
    for (int i = 0; i < lines; ++i) __builtin_prefetch(line + i * kLine, 0, 2);
  }
  static constexpr int kLine = 64;
};

// Words 4 g + i of sixteen rows: bytes of row r -> lane r of word (g, i).
struct Words {
  V::B of[4][4];  // [set][row], then [g][i]

  [[gnu::always_inline]] void transpose() {
    for (V::B(&set)[4] : of) V::transpose_words(set[0], set[1], set[2], set[3]);
    for (int i = 0; i < 4; ++i) V::transpose_groups(of[0][i], of[1][i], of[2][i], of[3][i]);
  }
  [[gnu::always_inline]] V::B& row(int r) { return of[r / 4][r % 4]; }
  [[gnu::always_inline]] V::B word(int g, int i) const { return of[g][i]; }
};

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

  PanelFetch ahead;

  [[gnu::always_inline]] void fetch(int g) const { ahead.run(g); }
  template <int i>
  [[gnu::always_inline]] V::B word(int g) const {
    return V::load_b(codes[g][i]);
  }
  [[gnu::always_inline]] V::F scale(int g) const { return V::load(d[g]); }
  [[gnu::always_inline]] V::F minimum(int g) const { return V::load(m[g]); }

  // A step of the sixteen rows to groups from `group` on; `sets`: four rows each.
  template <class Format>
  [[gnu::always_inline]] void unpack_step(const Rows (&sets)[4], int group) {
    unpack_scales<Format>(sets, group);
    unpack_quad<Format, 0>(sets, group);
    if constexpr (Format::kQuads > 1) unpack_quad<Format, 1>(sets, group + 4);
    if constexpr (Format::kQuads > 2) {
      unpack_quad<Format, 2>(sets, group + 8);
      unpack_quad<Format, 3>(sets, group + 12);
    }
  }

 private:
  template <class Format>
  [[gnu::always_inline]] void unpack_scales(const Rows (&sets)[4], int group) {
    Scales<Format::kQuads> s[4];
    for (int set = 0; set < 4; ++set) s[set] = Format::scales(sets[set]);
    for (int quad = 0; quad < Format::kQuads; ++quad, group += 4) {
      store_scales(d[group], s[0].d[quad], s[1].d[quad], s[2].d[quad], s[3].d[quad]);
      if constexpr (kMin) {
        store_scales(m[group], s[0].m[quad], s[1].m[quad], s[2].m[quad], s[3].m[quad]);
      }
    }
  }
  [[gnu::always_inline]] static void store_scales(float* to, V::F s0, V::F s1, V::F s2, V::F s3) {
    V::B of[4] = {V::as_bytes(s0), V::as_bytes(s1), V::as_bytes(s2), V::as_bytes(s3)};
    V::transpose_groups(of[0], of[1], of[2], of[3]);
    for (int g = 0; g < 4; ++g) V::store_b(to + 16 * g, of[g]);
  }

  template <class Format, int quad>
  [[gnu::always_inline]] void unpack_quad(const Rows (&sets)[4], int group) {
    if constexpr (Format::kNibbleWords != 0) {
      Words bytes;
      for (int r = 0; r < 16; ++r)
        bytes.row(r) = Format::template bytes<quad>(sets[r / 4].at[r % 4]);
      bytes.transpose();
      for (int g = 0; g < 4; ++g)
        for (int i = 0; i < 4; ++i) store_nibbles<Format>(group, g, i, bytes.word(g, i));
    } else if constexpr (Format::kTwoGroups) {
      unpack_two_groups<Format, 0>(sets, group);
      unpack_two_groups<Format, 1>(sets, group + 2);
    } else {
      Words low, high;
      for (int r = 0; r < 16; ++r)
        Format::template codes<quad>(sets[r / 4].at[r % 4], low.row(r), high.row(r));
      low.transpose();
      for (int g = 0; g < 4; ++g)
        for (int i = 0; i < 4; ++i) V::store_b(codes[group + g][i], low.word(g, i));
      if constexpr (kGroup == 32) {
        high.transpose();
        for (int g = 0; g < 4; ++g)
          for (int i = 0; i < 4; ++i) V::store_b(codes[group + g][4 + i], high.word(g, i));
      }
    }
  }

  template <class Format, int half>
  [[gnu::always_inline]] void unpack_two_groups(const Rows (&sets)[4], int group) {
    Words bytes;
    for (int r = 0; r < 16; ++r)
      bytes.row(r) = Format::template two_groups<half>(sets[r / 4].at[r % 4]);
    bytes.transpose();
    for (int g = 0; g < 4; ++g)
      for (int i = 0; i < 4; ++i)
        V::store_b(codes[group + g / 2][4 * (g % 2) + i], bytes.word(g, i));
  }

  template <class Format>
  [[gnu::always_inline]] void store_nibbles(int group, int g, int i, V::B bytes) {
    const V::B low = Format::code(V::low_nibbles(bytes));
    const V::B high = Format::code(V::high_nibbles(bytes));
    if constexpr (Format::kNibbleWords == 4) {
      V::store_b(codes[group + g][i], low);
      V::store_b(codes[group + g][4 + i], high);
    } else {
      V::store_b(codes[group + g / 2 * 2][4 * (g % 2) + i], low);
      V::store_b(codes[group + g / 2 * 2 + 1][4 * (g % 2) + i], high);
    }
  }
};

// A tile of activation rows along a slab: records by partial sum, of
//   q[rows][kGroup] | f32 d[rows] | what its sum(q) gives, 4 bytes [rows]:
// d sum(q) as f32 where the type has a minimum, else -zero sum(q) as i32, where a dot starts.
template <int kGroup, bool kMin>
struct TileInput {
  static constexpr int kRowBytes = kGroup + 8;  // of a row in a record

  // Rows [first, first + rows), `groups` of them from k on.
  static void load(const MatmulRows& a, int first, int rows, int k, int groups, int zero,
                   std::uint8_t* to) {
    const Q8Layout layout = q8_layout(static_cast<std::size_t>(a.k));
    const int record = rows * kRowBytes;
    for (int t = 0; t < rows; ++t) {
      const auto* row =
          static_cast<const std::uint8_t*>(a.x) + static_cast<std::size_t>(first + t) * a.x_stride;
      const std::uint8_t* q = row + k;
      const auto* d = reinterpret_cast<const float*>(row + layout.d_offset) + k / 32;
      const auto* sums = reinterpret_cast<const std::int16_t*>(row + layout.sums_offset) + k / 16;
      float terms[kMostGroups];
      for (int g = 0; g < groups; ++g) {
        const std::int32_t sum = kGroup == 32 ? sums[2 * g] + sums[2 * g + 1] : sums[g];
        terms[g] = kMin ? d[g * kGroup / 32] * static_cast<float>(sum)
                        : bits_float(static_cast<std::uint32_t>(-zero * sum));
      }
      std::uint8_t* at = to + t * kGroup;
      std::uint8_t* at_d = to + rows * kGroup + 4 * t;
      for (int p = 0; p < 4; ++p) {
        for (int g = p; g < groups; g += 4, at += record, at_d += record) {
          __builtin_memcpy(at, q + g * kGroup, kGroup);
          __builtin_memcpy(at_d, d + g * kGroup / 32, 4);
          __builtin_memcpy(at_d + 4 * rows, terms + g, 4);
        }
      }
    }
  }

 private:
  static constexpr int kMostGroups = kSlab / kGroup;
};

// Words i and i + kWords / 2 of a group of each panel times those of kTile activation rows, for all
// i from `i` on. Vocabulary: V, named so that it may lack dot_word().
template <int i, int kTile, int kPanels, class P, class Vocabulary = V>
[[gnu::always_inline]] inline void dot_group(const P* w, int g, const std::uint8_t* x,
                                             V::I (*dots)[kTile]) {
  constexpr int kHalf = P::kWords / 2;
  if constexpr (i < kHalf) {
    V::B low[kPanels], high[kPanels];
    for (int p = 0; p < kPanels; ++p) {
      low[p] = w[p].template word<i>(g), high[p] = w[p].template word<i + kHalf>(g);
    }
    for (int t = 0; t < kTile; ++t) {
      const std::uint8_t* x_low = x + t * P::kGroup + 4 * i;
      const std::uint8_t* x_high = x_low + 4 * kHalf;
      if constexpr (kPanels == 1 && requires(V::I d) { Vocabulary::dot_word(d, low[0], x_low); }) {
        dots[0][t] = Vocabulary::dot_word(dots[0][t], low[0], x_low);
        dots[0][t] = Vocabulary::dot_word(dots[0][t], high[0], x_high);
      } else {
        const V::B a_low = V::repeat_word(x_low), a_high = V::repeat_word(x_high);
        for (int p = 0; p < kPanels; ++p) {
          if constexpr (P::kSigned) {
            dots[p][t] = V::dot_signed(dots[p][t], low[p], a_low);
            dots[p][t] = V::dot_signed(dots[p][t], high[p], a_high);
          } else {
            dots[p][t] = V::dot_pair(dots[p][t], low[p], a_low, high[p], a_high);
          }
        }
      }
    }
    dot_group<i + 1, kTile, kPanels>(w, g, x, dots);
  }
}

// Partial sum p of kTile activation rows, over groups [0, groups) of kPanels panels; x: the first
// record of the partial sum, afterwards that of the next.
template <int kTile, int kPanels, class P>
[[gnu::always_inline]] inline void add_partial(const P* w, const std::uint8_t*& x, int p,
                                               int groups, V::F (*acc)[kTile]) {
  for (int g = p; g < groups; g += 4) {
    const std::uint8_t* scales = x + kTile * P::kGroup;
    const std::uint8_t* terms = scales + 4 * kTile;
    V::I dots[kPanels][kTile];
    V::F d[kPanels], m[kPanels];
    for (int i = 0; i < kPanels; ++i) {
      w[i].fetch(g);
      for (int t = 0; t < kTile; ++t) {
        dots[i][t] = P::kMin ? V::zero_dots()
                             : V::splat_i(static_cast<std::int32_t>(load_u32(terms + 4 * t)));
      }
    }
    dot_group<0, kTile, kPanels>(w, g, x, dots);
    for (int i = 0; i < kPanels; ++i) {
      d[i] = w[i].scale(g);
      if constexpr (P::kMin) m[i] = w[i].minimum(g);
    }
    for (int t = 0; t < kTile; ++t) {
      const V::F d_x = V::splat(bits_float(load_u32(scales + 4 * t)));
      for (int i = 0; i < kPanels; ++i) {
        acc[i][t] = V::fma(V::to_float(dots[i][t]), V::mul(d[i], d_x), acc[i][t]);
        if constexpr (P::kMin) {
          const V::F c = V::splat(bits_float(load_u32(terms + 4 * t)));
          acc[i][t] = V::fma(m[i], c, acc[i][t]);
        }
      }
    }
    x += kTile * TileInput<P::kGroup, P::kMin>::kRowBytes;
  }
}

// Partial sums of an activation row, a lane for each weight row of a panel.
using PanelSums = float[4][16];

// All four of kTile activation rows and kPanels panels; `sums` are those of the activation rows and
// the first panel, `stride` further those of the next; `first`: they begin at 0.
template <int kTile, int kPanels, class P>
[[gnu::noinline]] void multiply_panels(const P* w, const std::uint8_t* x, int groups, bool first,
                                       PanelSums* sums, int stride) {
  for (int p = 0; p < 4; ++p) {
    V::F acc[kPanels][kTile];
    for (int i = 0; i < kPanels; ++i)
      for (int t = 0; t < kTile; ++t) {
        acc[i][t] = first ? V::zero() : V::load(sums[i * stride + t][p]);
      }
    add_partial<kTile, kPanels>(w, x, p, groups, acc);
    for (int i = 0; i < kPanels; ++i)
      for (int t = 0; t < kTile; ++t) V::store(sums[i * stride + t][p], acc[i][t]);
  }
}

// Panels of a weight in file layout, made when they are needed.
template <class F>
class UnpackedPanels {
 public:
  using Format = F;
  using PanelType = Panel<Format::kGroup, Format::kMin, Format::kSigned>;
  static constexpr int kAtOnce = V::kPanelPair ? 2 : 1;
  static constexpr int kTile = V::kPanelPair ? V::kPanelPair : V::kPanelTile;

  // Weights [k, k + weights) of the rows from `row` on; those from n on repeat the last.
  const PanelType* at(const MatmulRows& a, int row, int k, int weights) {
    for (int i = 0; i < kAtOnce; ++i) unpack(a, row + 16 * i, k, weights, panels_[i]);
    lines_ = 0;
    if (kGroupRows * a.w_stride > kLargestGroup) return panels_;
    // The rows behind these, in the order of memory.
    const std::size_t bytes = static_cast<std::size_t>(weights) * a.w_stride / a.k;
    const std::size_t taken = static_cast<std::size_t>(k) * a.w_stride / a.k;
    next_ = static_cast<const std::uint8_t*>(a.w) +
            static_cast<std::size_t>(row + kGroupRows) * a.w_stride + kGroupRows * taken;
    lines_ = static_cast<int>(kGroupRows * bytes / PanelFetch::kLine) + 1;
    return panels_;
  }

  // Before each of `tiles` tiles over what at() gave: it will fetch its part of the rows behind.
  void fetch_with_tile(int tile, int tiles, int groups) {
    const int runs = tiles * kAtOnce * groups;
    const int lines = (lines_ + runs - 1) / runs;
    for (int i = 0; i < kAtOnce; ++i) {
      const int first = (tile * kAtOnce + i) * groups * lines;
      panels_[i].ahead = {next_ + first * PanelFetch::kLine, first < lines_ ? lines : 0};
    }
  }

 private:
  static constexpr int kStepWeights = Format::kQuads * 4 * Format::kGroup;
  static constexpr int kGroupRows = 16 * kAtOnce;
  static constexpr std::size_t kLargestGroup = 262144;  // is held in L2
  PanelType panels_[kAtOnce];
  const std::uint8_t* next_ = nullptr;
  int lines_ = 0;  // to fetch from there on; none where rows are too long

  static void unpack(const MatmulRows& a, int row, int k, int weights, PanelType& panel) {
    const auto* base = static_cast<const std::uint8_t*>(a.w) +
                       static_cast<std::size_t>(k / kStepWeights) * Format::kStepBytes;
    Rows sets[4];
    for (int r = 0; r < 16; ++r) {
      const int at = row + r < a.n ? row + r : a.n - 1;
      sets[r / 4].at[r % 4] = base + static_cast<std::size_t>(at) * a.w_stride;
    }
    int w = 0;
    for (; w + kStepWeights <= weights; w += kStepWeights) {
      panel.template unpack_step<Format>(sets, w / Format::kGroup);
      for (Rows& set : sets)
        for (const std::uint8_t*& at : set.at) at += Format::kStepBytes;
    }
    if constexpr (Format::kBlockBytes != 0) {
      const int blocks = (weights - w) / Format::kGroup;
      if (blocks == 0) return;
      CutStep<Format> steps[4];
      const int behind = a.n - row - 16;  // rows
      if (behind <= 0 || static_cast<std::size_t>(behind) * a.w_stride < Format::kStepBytes) {
        for (int set = 0; set < 4; ++set) sets[set] = steps[set].copy(sets[set], blocks);
      }
      panel.template unpack_step<Format>(sets, w / Format::kGroup);
    }
  }
};

// Panels of a weight in packed layout, where they lie: one at a time, which is one stream.
template <class F, DType type>
class PackedPanels {
 public:
  using Format = F;
  using PanelType = PackedPanel<F, type>;
  static constexpr int kAtOnce = 1, kTile = V::kPanelTile;

  const PanelType* at(const MatmulRows& a, int row, int k, int weights) {
    const auto* panel =
        static_cast<const std::uint8_t*>(a.w) + static_cast<std::size_t>(row) * a.w_stride;
    panel_ = {panel + static_cast<std::size_t>(k / 32) * PanelType::kRecord.bytes, weights / 32};
    return &panel_;
  }
  void fetch_with_tile(int, int, int) {}

 private:
  PanelType panel_;
};

}  // namespace
}  // namespace orrery::kernels
