// Prefill matmul (class b16): weights are unpacked into bf16 panels, products of 32 lines x 32
// tokens are summed in f32. K runs in file order for every output, so the bits depend neither on
// the split into tasks nor on the number of tokens.
//
// Caches: a product needs 4 KiB of operands for each k step; one of the two comes from L2, and what
// L2 delivers bounds the product. So a panel is made in L1, in the place of the one before it, and
// the token blocks stream past it. Where the tokens do not fit into L2, several panels are made at
// once and stream past a part of a token block, so that those are read less often. Of few token
// blocks the products take less time than the panels: where a matrix unit multiplies, the next part
// of a panel is made beside the products of this one.
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/body/block_epilogue.hpp"
#include "kernels/body/block_few.hpp"
#include "kernels/body/block_panels.hpp"
#include "kernels/body/block_product.hpp"

namespace orrery::kernels {
namespace {

// P: TileProduct or VectorProduct.
template <class P>
struct BlockMatmul {
  static constexpr int kGroup = 16;              // token blocks of one pass
  static constexpr int kWholeSteps = 20;         // up to this many k steps are one part
  static constexpr std::size_t kNear = 1 << 20;  // bytes of activations that stay in L2

  static std::size_t scratch_bytes(int k) {
    const Parts parts(ceil_div(k, 32));
    const std::size_t bytes =
        panels_bytes(parts) + sums_blocks(parts) * kBlockFloats * sizeof(float);
    return bytes < FewBlocks<P>::kScratchBytes ? FewBlocks<P>::kScratchBytes : bytes;
  }

  template <class W>
  static void run(const MatmulBlocks& a) {
    // Blocks of one step have their scales read sixteen at a time, but a part of FewBlocks has
    // eight steps: that pays from three usual parts on.
    constexpr int kFromParts = W::kSteps == 1 ? 3 : 2;
    const bool beside = P::kBeside && Parts(ceil_div(a.k, 32)).n >= kFromParts;
    multiply_all(a, Panels<P>::template unpack<W>,
                 beside ? Panels<P>::template unpack_lines<W> : nullptr);
  }
  template <class W>
  static void run_packed(const MatmulBlocks& a) {
    multiply_all(a, Panels<P>::template unpack_packed<W>, nullptr);
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
  static std::size_t panels_bytes(const Parts& parts) {
    const int panels = parts.n == 1 ? 1 : P::kFarPanels;
    return static_cast<std::size_t>(panels) * parts.most * P::kStepBytes;
  }
  static std::size_t sums_blocks(const Parts& parts) {
    return parts.n == 1 ? 2 : static_cast<std::size_t>(kGroup) * P::kFarPanels;
  }

  [[gnu::noinline]] static void multiply_all(const MatmulBlocks& a,
                                             typename Panels<P>::Unpack unpack,
                                             typename Panels<P>::UnpackLines unpack_lines) {
    for (int first = 0; first < ceil_div(a.m, 32); first += kGroup) {
      const int left = ceil_div(a.m, 32) - first, blocks = left < kGroup ? left : kGroup;
      if constexpr (P::kBeside) {
        if (unpack_lines != nullptr && blocks <= FewBlocks<P>::kMost) {
          FewBlocks<P>(a, unpack_lines, first, blocks).run();
          continue;
        }
      }
      Pass(a, unpack, first, blocks).run();
    }
  }

  // Some token blocks times all rows of the task.
  class Pass {
   public:
    Pass(const MatmulBlocks& call, typename Panels<P>::Unpack function, int first, int n)
        : a(call),
          unpack(function),
          parts(ceil_div(call.k, 32)),
          first_block(first),
          blocks(n),
          epilogue(call) {
      const std::size_t x_bytes = static_cast<std::size_t>(blocks) * steps * kXStep;
      const bool near = parts.n == 1 || x_bytes <= kNear;
      most_panels = near ? 1 : P::kFarPanels;
    }

    void run() {
      const int rows = most_panels * panel_rows(a);
      for (int row = 0; row < a.n; row += rows) {
        panels = ceil_div(a.n - row < rows ? a.n - row : rows, panel_rows(a));
        for (int step = 0; step < steps; step += parts.most) {
          run_part({row, step, steps - step < parts.most ? steps - step : parts.most});
        }
      }
      finish();
    }

   private:
    void finish() {
      chain.finish();
      epilogue.finish();
    }

    std::uint8_t* panel(int p, int count) const {
      return static_cast<std::uint8_t*>(a.scratch) +
             static_cast<std::size_t>(p) * count * P::kStepBytes;
    }

    void run_part(const PanelPart& now) {
      for (int p = 0; p < panels; ++p) {
        unpack(a, {now.row + p * panel_rows(a), now.step, now.count}, panel(p, now.count));
      }
      for (int block = 0; block < blocks; ++block) {
        if (panels == 1) {
          multiply<Stream::x>(now, 0, block);
        } else {
          for (int p = 0; p < panels; ++p) multiply<Stream::panel>(now, p, block);
        }
      }
    }

    template <Stream kStream>
    void multiply(const PanelPart& now, int p, int block) {
      const std::uint8_t* x =
          static_cast<const std::uint8_t*>(a.x) +
          (static_cast<std::size_t>(first_block + block) * steps + now.step) * kXStep;
      const std::uint8_t* next_x = x + static_cast<std::size_t>(steps) * kXStep;
      const bool fetch = p == 0 && block + 1 < blocks;
      float* c = sums(parts.n == 1 ? next_sums++ % 2 : block * panels + p);
      epilogue.beside([&](auto& between) __attribute__((always_inline)) {
        chain.template multiply<kStream>(panel(p, now.count), x, now.count, c, now.step == 0,
                                         between, fetch ? next_x : nullptr);
      });
      if (now.step + now.count < steps) return;
      epilogue.start(c, now.row + p * panel_rows(a), first_block + block);
      if (parts.n > 1 && blocks * panels == 1) finish();  // or the next product has its sums
    }

    float* sums(int i) const {
      std::uint8_t* memory = static_cast<std::uint8_t*>(a.scratch) + panels_bytes(parts);
      return reinterpret_cast<float*>(memory) + static_cast<std::size_t>(i) * kBlockFloats;
    }

    const MatmulBlocks& a;
    const typename Panels<P>::Unpack unpack;
    const Parts parts;
    const int first_block, blocks;
    const int steps = ceil_div(a.k, 32);
    typename P::Chain chain;
    Epilogue epilogue;
    int most_panels = 1, panels = 1;
    int next_sums = 0;
  };
};

}  // namespace
}  // namespace orrery::kernels
