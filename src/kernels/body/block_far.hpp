// Token blocks whose activations do not stay in L2, times all rows of a task, where a matrix unit
// multiplies: several panels are made at once and stream past a part of a token block, so that the
// activations are read less often.
#pragma once

#include "kernels/body/block_beside.hpp"

namespace orrery::kernels {
namespace {

template <class P>
class FarPass {
 public:
  static constexpr int kPanels = 8;

  static std::size_t scratch_bytes(int k) {
    const std::size_t panels =
        static_cast<std::size_t>(kPanels * part_steps(ceil_div(k, 32))) * P::kStepBytes;
    return panels + std::size_t{kPanels} * kMostBlocks * kBlockFloats * sizeof(float);
  }

  FarPass(const MatmulBlocks& call, const PanelMaker<P>& maker, int first, int blocks)
      : a_(call), maker_(maker), first_(first), blocks_(blocks), epilogue_(call) {}

  void all() {
    const int rows = kPanels * panel_rows(a_);
    for (int row = 0; row < a_.n; row += rows) {
      panels_ = ceil_div(a_.n - row < rows ? a_.n - row : rows, panel_rows(a_));
      for (int step = 0; step < steps_; step += most_) {
        run_part({row, step, steps_ - step < most_ ? steps_ - step : most_});
      }
    }
    chain_.finish();
    epilogue_.finish();
  }

 private:
  // Equal parts of whole blocks of every type.
  static constexpr int part_steps(int steps) {
    return ceil_div(ceil_div(steps, ceil_div(steps, P::kPartSteps)), 8) * 8;
  }

  void run_part(const PanelPart& now) {
    for (int p = 0; p < panels_; ++p) {
      PanelWork work(a_, {now.row + p * panel_rows(a_), now.step, now.count}, panel(p));
      maker_.finish(work);
    }
    for (int block = 0; block < blocks_; ++block) {
      for (int p = 0; p < panels_; ++p) multiply(now, p, block);
    }
  }

  void multiply(const PanelPart& now, int p, int block) {
    const std::size_t step = static_cast<std::size_t>(first_ + block) * steps_ + now.step;
    const std::uint8_t* x = static_cast<const std::uint8_t*>(a_.x) + step * kXStep;
    float* c = sums(block * panels_ + p);
    epilogue_.template beside<1>([&](auto& between) __attribute__((always_inline)) {
      chain_.template multiply<Stream::panel>(panel(p), x, now.count, c, now.step == 0, between);
    });
    if (now.step + now.count == steps_) {
      epilogue_.start(c, now.row + p * panel_rows(a_), first_ + block);
    }
  }

  std::uint8_t* panel(int p) const {
    return static_cast<std::uint8_t*>(a_.scratch) +
           static_cast<std::size_t>(p * most_) * P::kStepBytes;
  }
  float* sums(int i) const {
    return reinterpret_cast<float*>(panel(kPanels)) + static_cast<std::size_t>(i) * kBlockFloats;
  }

  const MatmulBlocks& a_;
  const PanelMaker<P>& maker_;
  const int first_, blocks_;
  const int steps_ = ceil_div(a_.k, 32), most_ = part_steps(steps_);
  int panels_ = 0;
  typename P::Chain chain_;
  Epilogue epilogue_;
};

}  // namespace
}  // namespace orrery::kernels
