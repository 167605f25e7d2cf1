// A task of a large product of two prepared operands (class b16), for tiles. Its sums are a compact
// buffer that stays in L2; parts of k are the outer loop, and a panel's part of k stays in L1 while
// the columns stream past it from L2. What the next part reads, and the next panel, is on its way
// from further out meanwhile. Sums that are complete go to C beside the product that follows.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "kernels/body/block_panels.hpp"
#include "kernels/body/block_product.hpp"

namespace orrery::kernels {
namespace {

// C is not read again soon: to fetch its lines before they are overwritten, and to let them evict
// operands, would cost as much as the products of half a part of k.
ORRERY_INLINE void write_around(float* p, V::F values) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, values);
#else
  V::store(p, values);
#endif
}
// Other threads see what was written.
ORRERY_INLINE void end_writing_around() {
#if defined(__AVX512F__)
  _mm_sfence();
#endif
}

// A block of 32 x 32 sums on its way to rows of C.
struct FinishedBlock {
  const float* sums = nullptr;
  float* c;
  std::size_t stride;
  int rows = 0, row = 0;  // rows of C, and those that are written
  bool wide;              // more than 16 columns

  [[gnu::always_inline]] inline void write_row() {
    if (row == rows) return;
    write_around(c, V::load(sums + 32 * row));
    if (wide) write_around(c + 16, V::load(sums + 32 * row + 16));
    c += stride, ++row;
  }
};

template <class P>
class BlockTask {
 public:
  static void run(const MatmulTask& task) {
    BlockTask me(task);
    for (int k = 0; k < task.k; k += kPartK) me.run_part(k);
    me.chain_.finish();
    me.write_rest();
    end_writing_around();
  }

 private:
  static constexpr int kPartK = 32 * P::kPartSteps;
  static constexpr int kLine = 64;
  // Lines that a product fetches of the next panel and of the columns of the next part.
  static constexpr int kPanelLines = 4 * P::kPartSteps, kColumnLines = 2 * P::kPartSteps;

  // Vectors' share of a product, before each of its four tile products of a step.
  template <bool kWrite>
  struct Beside {
    static constexpr bool kEarly = true;
    const std::uint8_t *sums, *panel, *columns;  // what is fetched
    FinishedBlock& finished;

    template <class Tile>
    [[gnu::always_inline]] inline void operator()(Tile) {
      __builtin_prefetch(sums, 1, 3), sums += kLine;
      __builtin_prefetch(panel, 0, 2), panel += kLine;
      if constexpr (Tile::value < 2) __builtin_prefetch(columns, 0, 2), columns += kLine;
      if constexpr (kWrite && Tile::value % 2 == 1) finished.write_row();
    }
  };

  explicit BlockTask(const MatmulTask& task)
      : task_(task), panels_(ceil_div(task.m, 32)), columns_(ceil_div(task.n, 32)) {}

  void run_part(int k) {
    const bool last = k + kPartK >= task_.k;
    for (int r = 0; r < panels_; ++r) {
      for (int q = 0; q < columns_; ++q) {
        last ? multiply<true>(k, r, q) : multiply<false>(k, r, q);
      }
    }
  }

  template <bool kLast>
  void multiply(int k, int r, int q) {
    const int left = task_.k - k, steps = ceil_div(left < kPartK ? left : kPartK, 32);
    const std::uint8_t *panel = panel_at(k, r), *x = columns_at(k, q);
    float* sums = task_.sums + (r * columns_ + q) * kBlockFloats;
    Beside<kLast> beside{reinterpret_cast<const std::uint8_t*>(sums + kBlockFloats),
                         next_panel(k, r, q), next_columns(k, r, q), finished_};
    chain_.template multiply<Stream::x>(panel, x, steps, sums, k == 0, beside);
    if constexpr (kLast) {
      write_rest();
      finished_ = {sums,
                   task_.c + 32 * r * task_.c_stride + 32 * q,
                   task_.c_stride,
                   task_.m - 32 * r < 32 ? task_.m - 32 * r : 32,
                   0,
                   task_.n - 32 * q > 16};
    }
  }

  void write_rest() {
    while (finished_.row < finished_.rows) finished_.write_row();
  }

  const std::uint8_t* panel_at(int k, int r) const {
    return static_cast<const std::uint8_t*>(task_.a) + r * task_.a_stride + k / 32 * P::kStepBytes;
  }
  const std::uint8_t* columns_at(int k, int q) const {
    return static_cast<const std::uint8_t*>(task_.b) + q * task_.b_stride + k / 32 * kXStep;
  }
  // Addresses of lines that products fetch one after the other. Where nothing is left, they are of
  // what is at hand.
  const std::uint8_t* next_panel(int k, int r, int q) const {
    const int done = q * kPanelLines * kLine;
    if (done >= P::kPartSteps * P::kStepBytes) return panel_at(k, r);
    if (r + 1 < panels_) return panel_at(k, r + 1) + done;
    if (k + kPartK < task_.k) return panel_at(k + kPartK, 0) + done;
    return static_cast<const std::uint8_t*>(task_.next_a) + done;
  }
  const std::uint8_t* next_columns(int k, int r, int q) const {
    constexpr int kProducts = P::kPartSteps * kXStep / (kColumnLines * kLine);  // for one column
    const int product = r * columns_ + q, column = product / kProducts;
    const int done = product % kProducts * kColumnLines * kLine;
    if (column >= columns_) return columns_at(k, q);
    if (k + kPartK < task_.k) return columns_at(k + kPartK, column) + done;
    return static_cast<const std::uint8_t*>(task_.next_b) + column * task_.b_stride + done;
  }

  const MatmulTask& task_;
  const int panels_, columns_;  // of 32 rows and columns
  typename P::Chain chain_;
  FinishedBlock finished_;
};

}  // namespace
}  // namespace orrery::kernels
