// Scores with quantized keys (class i8): sixteen keys of a page are a packed panel, so a lane is a
// key and no sum goes across lanes.
#pragma once

#include "kernels/body/attention_pages.hpp"
#include "kernels/body/row_elementwise.hpp"
#include "kernels/body/row_panel.hpp"

namespace orrery::kernels {
namespace {

// A panel of keys; the caller fetches what comes next.
template <class Format, DType type>
struct CachedPanel : PackedPanel<Format, type> {
  using PackedPanel<Format, type>::PackedPanel;
  [[gnu::always_inline]] void fetch(int) const {}
};

// The queries of kHeads heads as activation rows.
template <int kHeads>
struct QuantizedQueries {
  static constexpr std::size_t kStride = q8_layout(kMaxQuantizedDim).stride;
  alignas(64) std::uint8_t rows[kHeads * kStride];
  std::uint8_t input[kHeads * kMaxQuantizedDim / 32 * TileInput<32, false>::kRowBytes];

  void load(const AttentionPart& a, int head, int zero) {
    const float* q = a.q + static_cast<std::size_t>(head) * a.q_stride;
    for (int h = 0; h < kHeads; ++h, q += a.q_stride) {
      quantize_q8(q, a.k_dim, rows + static_cast<std::size_t>(h) * kStride);
    }
    MatmulRows product = {};
    product.x = rows, product.x_stride = kStride, product.k = a.k_dim;
    TileInput<32, false>::load(product, 0, kHeads, 0, a.k_dim / 32, zero, input);
  }
};

// Writes the scores of all panels that hold a position of the part: scores[head][t - begin], from
// up to 15 before the part to up to 15 behind it.
template <class Format, DType type, int kHeads>
[[gnu::always_inline]] inline void score_panels(const AttentionPart& a, int head, float* scores) {
  constexpr int kZero = Format::kZero + (Format::kSigned ? V::kSignedBias : 0);
  QuantizedQueries<kHeads> queries;
  queries.load(a, head, kZero);
  const int groups = a.k_dim / 32;
  const int panel_bytes = groups * packed_record(type).bytes;
  for (int t = a.begin / kPackedRows * kPackedRows; t < a.end; t += kPackedRows) {
    values_ahead(a, t).fetch(t % kPageTokens, kPackedRows);
    const std::byte* keys = page_of(a, t) + t % kPageTokens / kPackedRows * panel_bytes;
    const CachedPanel<Format, type> panel(reinterpret_cast<const std::uint8_t*>(keys), groups);
    V::F sums[4][1][kHeads];
    const std::uint8_t* x = queries.input;
    for (int p = 0; p < 4; ++p) {
      for (int h = 0; h < kHeads; ++h) sums[p][0][h] = V::zero();
      add_partial<kHeads, 1>(&panel, x, p, groups, sums[p]);
    }
    for (int h = 0; h < kHeads; ++h) {
      const V::F even = V::add(sums[0][0][h], sums[2][0][h]);
      const V::F odd = V::add(sums[1][0][h], sums[3][0][h]);
      V::store(scores + h * kScoreStride + (t - a.begin), V::add(even, odd));
    }
  }
}

}  // namespace
}  // namespace orrery::kernels
