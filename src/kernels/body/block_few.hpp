// Few token blocks times all rows of a task, where a matrix unit multiplies: while it does, vectors
// unpack the next part of a panel, a line at a time between the tile products.
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/body/block_epilogue.hpp"
#include "kernels/body/block_panels.hpp"
#include "kernels/body/block_product.hpp"

namespace orrery::kernels {
namespace {

template <class P>
class FewBlocks {
 public:
  static constexpr int kMost = 2;       // token blocks: more take longer than the unpacking
  static constexpr int kPartSteps = 8;  // whole blocks of every type; two parts stay in L1
  static constexpr int kLines = 32;     // of a panel
  static constexpr std::size_t kPartBytes = kPartSteps * P::kStepBytes;
  static constexpr std::size_t kScratchBytes =
      2 * kPartBytes + kMost * kBlockFloats * sizeof(float);

  using UnpackLines = typename Panels<P>::UnpackLines;

  FewBlocks(const MatmulBlocks& call, UnpackLines unpack, int first, int blocks)
      : a_(call), unpack_(unpack), first_(first), blocks_(blocks), epilogue_(call) {}

  void run() {
    PanelPart now = part(0, 0);
    unpack_(a_, now, panel(), 0, kLines);
    for (bool ends = false; !ends;) {
      const bool closes = now.step + now.count == steps_;
      const PanelPart next =
          closes ? part(now.row + panel_rows(a_), 0) : part(now.row, now.step + now.count);
      ends = next.row >= a_.n;
      Ahead ahead{a_, next, unpack_, panel(1), blocks_, ends ? kLines : 0};
      for (int block = 0; block < blocks_; ++block) multiply(now, block, ahead);
      ahead.finish();
      if (closes) finish(now.row);
      now = next;
      turn_ ^= 1;
    }
  }

 private:
  // Unpacks a line in each of the first calls, or in every second of them for two blocks.
  struct Ahead {
    static constexpr bool kEarly = true;
    const MatmulBlocks& a;
    const PanelPart& part;
    UnpackLines unpack;
    std::uint8_t* panel;
    int period, done, calls = 0;

    template <class Tile>
    void operator()(Tile) {
      if (++calls < period) return;
      calls = 0;
      if (done < kLines) unpack(a, part, panel, done, done + 1), ++done;
    }
    void finish() {
      if (done < kLines) unpack(a, part, panel, done, kLines);
    }
  };

  PanelPart part(int row, int step) const {
    return {row, step, steps_ - step < kPartSteps ? steps_ - step : kPartSteps};
  }
  // What is multiplied now, or with 1 what is made meanwhile.
  std::uint8_t* panel(int other = 0) const {
    return static_cast<std::uint8_t*>(a_.scratch) +
           static_cast<std::size_t>(turn_ ^ other) * kPartBytes;
  }
  float* sums(int block) const {
    return reinterpret_cast<float*>(static_cast<std::uint8_t*>(a_.scratch) + 2 * kPartBytes) +
           static_cast<std::size_t>(block) * kBlockFloats;
  }

  void multiply(const PanelPart& now, int block, Ahead& ahead) {
    const std::size_t step = static_cast<std::size_t>(first_ + block) * steps_ + now.step;
    const std::uint8_t* x = static_cast<const std::uint8_t*>(a_.x) + step * kXStep;
    if (blocks_ == 1 && now.step > 0) {  // its sums never leave the tiles
      chain_.template go_on<Stream::x>(panel(), x, now.count, ahead);
    } else {
      chain_.template multiply<Stream::x>(panel(), x, now.count, sums(block), now.step == 0, ahead);
    }
  }

  void finish(int row) {
    chain_.finish();
    for (int block = 0; block < blocks_; ++block) {
      epilogue_.start(sums(block), row, first_ + block);
      epilogue_.finish();
    }
  }

  const MatmulBlocks& a_;
  const UnpackLines unpack_;
  const int first_, blocks_;
  const int steps_ = ceil_div(a_.k, 32);
  int turn_ = 0;
  typename P::Chain chain_;
  Epilogue epilogue_;
};

}  // namespace
}  // namespace orrery::kernels
