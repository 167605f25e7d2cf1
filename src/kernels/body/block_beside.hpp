// Some token blocks times all rows of a task, where a matrix unit multiplies: while it does,
// vectors finish the product before and make the next part of a panel, a little at a time between
// the tile products.
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/body/block_epilogue.hpp"
#include "kernels/body/block_pieces.hpp"
#include "kernels/body/block_product.hpp"

namespace orrery::kernels {
namespace {

// How panels are made of a type and a layout of weights.
template <class P>
struct PanelMaker {
  // 2 * `pairs` k steps of a product, and beside each two of them 1, 2 or 4 units of a panel.
  using Advance = void (*)(typename P::Chain& chain, const std::uint8_t* panel,
                           const std::uint8_t* x, int pairs, PanelWork& work);
  Advance advance[3];
  void (*finish)(PanelWork& work);  // the units that are left
};

template <class P, class Source>
struct MakerOf {
  // At a tile product of the first or the second step of a pair.
  template <int kUnits, int kStep>
  struct Making {
    static constexpr bool kEarly = true;
    PanelWork& work;
    PieceUnit& of;
    int& unit;
    template <class Tile>
    [[gnu::always_inline]] inline void operator()(Tile) {
      constexpr int kOrder[4] = {0, 2, 1, 3};  // of the products of Stream::x
      piece<(4 * kStep + kOrder[Tile::value]) * kUnits, kUnits>();
    }
    template <int kFirst, int kCount>
    [[gnu::always_inline]] inline void piece() {
      if constexpr (kCount > 0) {
        if constexpr (kFirst % kPieces == 0) of = Source::begin(work, unit++);
        Source::template make<kFirst % kPieces>(work, of);
        piece<kFirst + 1, kCount - 1>();
      }
    }
  };
  template <int kUnits>
  static void advance(typename P::Chain& chain, const std::uint8_t* panel, const std::uint8_t* x,
                      int pairs, PanelWork& work) {
    PieceUnit of;
    int unit = work.unit;
    Making<kUnits, 0> first{work, of, unit};
    Making<kUnits, 1> second{work, of, unit};
    for (int i = 0; i < pairs; ++i, panel += 2 * P::kStepBytes, x += 2 * kXStep) {
      chain.template go_on<Stream::x>(panel, x, 1, first);
      chain.template go_on<Stream::x>(panel + P::kStepBytes, x + kXStep, 1, second);
    }
    work.unit = unit;
  }
  static void finish(PanelWork& work) {
    PieceUnit of;
    int unit = work.unit;
    while (unit < work.units()) {
      Making<kPieces, 0>{work, of, unit}.template piece<0, kPieces>();
    }
    work.unit = unit;
  }
  static constexpr PanelMaker<P> maker = {{advance<1>, advance<2>, advance<4>}, finish};
};

template <class P>
class BesidePass {
 public:
  static constexpr int kPartSteps = P::kPartSteps;
  static constexpr int kFew = 2;       // token blocks that leave time for ...
  static constexpr int kFewSteps = 8;  // ... parts of which two stay in L1
  static constexpr int kEndSteps = 8;  // k steps beside which a product ends, or half

  static std::size_t scratch_bytes(int k) {
    const int steps = ceil_div(k, 32);
    const int most = steps <= kWholeSteps ? steps : kPartSteps;
    return 2 * static_cast<std::size_t>(most) * P::kStepBytes +
           kMostBlocks * kBlockFloats * sizeof(float);
  }

  BesidePass(const MatmulBlocks& call, const PanelMaker<P>& maker, int first, int blocks)
      : a_(call), maker_(maker), first_(first), blocks_(blocks), epilogue_(call) {
    const int most = blocks <= kFew ? kFewSteps : steps_ <= kWholeSteps ? kWholeSteps : kPartSteps;
    const int parts = ceil_div(steps_, most);
    const int whole = steps_ % 8 == 0 ? 8 : 2;  // steps of whole blocks of every type
    most_ = parts == 1 ? steps_ : ceil_div(ceil_div(steps_, parts), whole) * whole;
  }

  void all() {
    PanelPart now = part(0, 0);
    PanelWork work(a_, now, panel());
    maker_.finish(work);
    for (bool ends = false; !ends;) {
      const bool closes = now.step + now.count == steps_;
      const PanelPart next =
          closes ? part(now.row + panel_rows(a_), 0) : part(now.row, now.step + now.count);
      ends = next.row >= a_.n;
      work.part = next, work.panel = panel(1), work.unit = ends ? work.units() : 0;
      for (int block = 0; block < blocks_; ++block) multiply(now, block, work);
      maker_.finish(work);
      now = next;
      turn_ ^= 1;
    }
    chain_.finish();
    epilogue_.finish();
  }

 private:
  PanelPart part(int row, int step) const {
    return {row, step, steps_ - step < most_ ? steps_ - step : most_};
  }
  // What is multiplied now, or with 1 what is made meanwhile.
  std::uint8_t* panel(int other = 0) const {
    return static_cast<std::uint8_t*>(a_.scratch) +
           static_cast<std::size_t>((turn_ ^ other) * most_) * P::kStepBytes;
  }
  float* sums(int i) const {
    return reinterpret_cast<float*>(static_cast<std::uint8_t*>(a_.scratch) +
                                    static_cast<std::size_t>(2 * most_) * P::kStepBytes) +
           static_cast<std::size_t>(i) * kBlockFloats;
  }

  // A product: its first step, which stores the sums of the one before; steps with that one's end
  // beside them; steps alone; steps with units of the next panel.
  void multiply(const PanelPart& now, int block, PanelWork& work) {
    const std::size_t step = static_cast<std::size_t>(first_ + block) * steps_ + now.step;
    at_ = {panel(), static_cast<const std::uint8_t*>(a_.x) + step * kXStep, now.count};
    if (blocks_ > 1 || now.step == 0) {  // else its sums never leave the tiles
      NothingBetween nothing;
      sums_ = sums(most_ == steps_ || blocks_ == 1 ? next_sums_++ % 2 : block);
      chain_.template start<Stream::x>(at_.panel, at_.x, sums_, now.step == 0, nothing);
      at_.pass(1);
    }
    const Beside beside = plan(work, blocks_ - block);
    end(beside.end_steps);
    NothingBetween nothing;
    go_on(at_.left - 2 * beside.pairs, nothing);
    maker_.advance[beside.kind](chain_, at_.panel, at_.x, beside.pairs, work);
    if (now.step + now.count == steps_) epilogue_.start(sums_, now.row, first_ + block);
  }

  // What runs beside the steps of a product: the end of the one before, and units at 1 << kind for
  // each of some pairs of steps.
  struct Beside {
    int end_steps, pairs, kind;
  };
  Beside plan(const PanelWork& work, int products) const {
    const int units = work.units() - work.unit, wanted = ceil_div(units, products);
    int end_steps = epilogue_.waits() ? kEndSteps : 0;
    while (end_steps > at_.left) end_steps /= 2;
    for (;; end_steps /= 2) {
      const int most = (at_.left - end_steps) / 2;
      for (int kind = 0; kind < 3; ++kind) {
        const int pairs = ceil_div(wanted, 1 << kind), there = units >> kind;
        if (pairs <= most) return {end_steps, pairs < there ? pairs : there, kind};
      }
      if (end_steps < kEndSteps) return {end_steps, most < units / 4 ? most : units / 4, 2};
    }
  }

  void end(int steps) {
    if (steps == kEndSteps) {
      epilogue_.template beside<1>(
          [&](auto& between) __attribute__((always_inline)) { go_on(kEndSteps, between); });
    } else {
      epilogue_.template beside<2>([&](auto& between)
                                       __attribute__((always_inline)) { go_on(steps, between); });
    }
  }
  template <class Between>
  [[gnu::always_inline]] inline void go_on(int steps, Between& between) {
    chain_.template go_on<Stream::x>(at_.panel, at_.x, steps, between);
    at_.pass(steps);
  }

  // Where a product is.
  struct At {
    const std::uint8_t *panel, *x;
    int left;  // steps
    void pass(int steps) { panel += steps * P::kStepBytes, x += steps * kXStep, left -= steps; }
  };

  const MatmulBlocks& a_;
  const PanelMaker<P>& maker_;
  const int first_, blocks_;
  const int steps_ = ceil_div(a_.k, 32);
  int most_;  // k steps of a part
  int turn_ = 0, next_sums_ = 0;
  float* sums_ = nullptr;  // of the last product
  At at_ = {};
  typename P::Chain chain_;
  Epilogue epilogue_;
};

}  // namespace
}  // namespace orrery::kernels
