// Prefill matmul (class b16): weights are unpacked into bf16 panels, products of 32 lines x 32
// tokens are summed in f32. K runs in file order for every output, so the bits depend neither on
// the split into tasks nor on the number of tokens.
//
// Caches: a product needs 4 KiB of operands for each k step; one of the two comes from L2, and what
// L2 delivers bounds the product. So a panel is made in L1, in the place of the one before it, and
// the token blocks stream past it. Where a matrix unit multiplies, the next part of a panel is made
// beside the products of this one (block_beside.hpp).
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/body/block_beside.hpp"
#include "kernels/body/block_epilogue.hpp"
#include "kernels/body/block_far.hpp"
#include "kernels/body/block_panels.hpp"
#include "kernels/body/block_product.hpp"

namespace orrery::kernels {
namespace {

// Some token blocks times all rows of a task; a panel is made and then multiplied.
template <class P>
class PlainPass {
 public:
  using Unpack = typename Panels<P>::Unpack;

  static std::size_t scratch_bytes(int k) {
    const Parts parts(ceil_div(k, 32));
    return static_cast<std::size_t>(parts.most) * P::kStepBytes +
           kMostBlocks * kBlockFloats * sizeof(float);
  }

  static void run(const MatmulBlocks& a, Unpack unpack) {
    for (int first = 0; first < ceil_div(a.m, 32); first += kMostBlocks) {
      const int left = ceil_div(a.m, 32) - first;
      PlainPass(a, unpack, first, left < kMostBlocks ? left : kMostBlocks).all();
    }
  }

 private:
  // Equal parts of K that keep an operand in L1; whole blocks of every type (8 steps).
  struct Parts {
    int n, most;
    explicit Parts(int steps) : n(1), most(steps) {
      if (steps <= kWholeSteps) return;
      n = ceil_div(steps, P::kPartSteps);
      most = ceil_div(ceil_div(steps, n), 8) * 8;
      n = ceil_div(steps, most);
    }
  };

  PlainPass(const MatmulBlocks& call, Unpack unpack, int first, int blocks)
      : a_(call),
        unpack_(unpack),
        parts_(ceil_div(call.k, 32)),
        first_(first),
        blocks_(blocks),
        epilogue_(call) {}

  void all() {
    for (int row = 0; row < a_.n; row += panel_rows(a_)) {
      for (int step = 0; step < steps_; step += parts_.most) {
        const PanelPart now{row, step, steps_ - step < parts_.most ? steps_ - step : parts_.most};
        unpack_(a_, now, panel());
        for (int block = 0; block < blocks_; ++block) multiply(now, block);
      }
    }
  }

  void multiply(const PanelPart& now, int block) {
    const std::uint8_t* x = static_cast<const std::uint8_t*>(a_.x) +
                            (static_cast<std::size_t>(first_ + block) * steps_ + now.step) * kXStep;
    const std::uint8_t* next_x = x + static_cast<std::size_t>(steps_) * kXStep;
    float* c = sums(parts_.n == 1 ? 0 : block);
    P::multiply(panel(), x, now.count, c, now.step == 0, block + 1 < blocks_ ? next_x : nullptr);
    if (now.step + now.count < steps_) return;
    epilogue_.start(c, now.row, first_ + block);
    epilogue_.template beside<1>([](auto&) {});
  }

  std::uint8_t* panel() const { return static_cast<std::uint8_t*>(a_.scratch); }
  float* sums(int i) const {
    std::uint8_t* memory = panel() + static_cast<std::size_t>(parts_.most) * P::kStepBytes;
    return reinterpret_cast<float*>(memory) + static_cast<std::size_t>(i) * kBlockFloats;
  }

  const MatmulBlocks& a_;
  const Unpack unpack_;
  const Parts parts_;
  const int first_, blocks_;
  const int steps_ = ceil_div(a_.k, 32);
  Epilogue epilogue_;
};

// The passes of a call where a matrix unit multiplies.
template <class P>
struct TilePasses {
  static constexpr std::size_t kNear = 1 << 20;  // bytes of activations that stay in L2
  static constexpr int kEnough = 8;              // token blocks that are worth a panel of their own

  static std::size_t scratch_bytes(int k) {
    const std::size_t beside = BesidePass<P>::scratch_bytes(k), far = FarPass<P>::scratch_bytes(k);
    return ceil_div(k, 32) <= kWholeSteps || beside > far ? beside : far;
  }
  static void run(const MatmulBlocks& a, const PanelMaker<P>& maker) {
    const int blocks = ceil_div(a.m, 32), steps = ceil_div(a.k, 32);
    const auto near = static_cast<int>(kNear / (static_cast<std::size_t>(steps) * kXStep));
    const bool far = steps > kWholeSteps && blocks > near && near < kEnough;
    const int most = far || near > kMostBlocks || near == 0 ? kMostBlocks : near;
    const int groups = ceil_div(blocks, most);
    for (int g = 0; g < groups; ++g) {
      const int first = blocks * g / groups, n = blocks * (g + 1) / groups - first;
      if (far) {
        FarPass<P>(a, maker, first, n).all();
      } else {
        BesidePass<P>(a, maker, first, n).all();
      }
    }
  }
};

// P: TileProduct or VectorProduct.
template <class P>
struct BlockMatmul {
  static std::size_t scratch_bytes(int k) {
    if constexpr (P::kBeside) return TilePasses<P>::scratch_bytes(k);
    return PlainPass<P>::scratch_bytes(k);
  }

  template <class W>
  static void run(const MatmulBlocks& a) {
    if constexpr (P::kBeside) {
      TilePasses<P>::run(a, MakerOf<P, typename Pieces<P>::template FromFile<W>>::maker);
    } else {
      PlainPass<P>::run(a, Panels<P>::template unpack<W>);
    }
  }
  template <class W>
  static void run_packed(const MatmulBlocks& a) {
    if constexpr (P::kBeside) {
      TilePasses<P>::run(a, MakerOf<P, typename Pieces<P>::template FromPacked<W>>::maker);
    } else {
      PlainPass<P>::run(a, Panels<P>::template unpack_packed<W>);
    }
  }
};

}  // namespace
}  // namespace orrery::kernels
