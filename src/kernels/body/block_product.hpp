// The product of a block: C (32 weight rows x 32 tokens) = or += panel x X, over some k steps
// of 32. Two engines with the same members: tiles (2 x 2 of 16 x 16) and vectors (register blocks).
#pragma once

#include <cstdint>

#include "kernels/body/block_unpack.hpp"

namespace orrery::kernels {
namespace {

constexpr int kBlockFloats = 32 * 32;  // C, and 32 features of an F block
constexpr int kXStep = 2048;           // bytes of an X block per 32 features

// Which operand is read once and should not evict the other from L1.
enum class Stream : std::uint8_t { x, panel };

struct NothingBetween {
  static constexpr bool kEarly = false;
  template <class Tile>
  void operator()(Tile) const {}
};

ORRERY_INLINE void prefetch_step(const std::uint8_t* x) {
  for (int i = 0; i < kXStep; i += 64) __builtin_prefetch(x + i, 0, 3);
}

// Panel: bf16 [step][2 halves][32 / T::kDepth][16 rows][T::kDepth].
template <class T>
struct TileProduct {
  static constexpr int kStepBytes = 2048;  // of a panel, per 32 k
  static constexpr int kPartSteps = 16;    // k steps of a part: 32 KiB of a panel
  static constexpr bool kBeside = true;    // vectors and tiles work at the same time

  // Where a step has a row.
  static constexpr int row_at(int row) { return 1024 * (row / 16) + kRowBytes * (row % 16); }

  // 32 k of a row of the panel.
  static void pack(std::uint8_t* step, int row, V::F low, V::F high) {
    place(step, row, [&](void* target) { store_bf16_row(target, low, high); });
  }
  template <class W>
  static void pack_weights(std::uint8_t* step, int row, const std::uint8_t* block,
                           const typename W::Shared& shared, int j) {
    place(step, row, [&](void* target) { store_weights<W>(target, block, shared, j); });
  }

  // store(target) writes 64 bytes.
  template <class Store>
  ORRERY_INLINE void place(std::uint8_t* step, int row, Store store) {
    std::uint8_t* target = step + row_at(row);
    if constexpr (T::kDepth == 32) {
      store(target);
    } else {
      std::uint8_t values[64];
      store(values);
      for (int d = 0; d < 32 / T::kDepth; ++d) {
        __builtin_memcpy(target + 16 * kRowBytes * d, values + kRowBytes * d, kRowBytes);
      }
    }
  }

  // Products one after the other. What one has summed goes to memory, tile by tile, in the first
  // step of the next: tiles that all waited for their last sums would stand still meanwhile.
  class Chain {
   public:
    // between(tile) is called before each tile product (of the first k, if a k step has several):
    // instructions of vectors run beside tiles if there are a few of them at a time. If it is not
    // kEarly, it is not called in the first step: then the sums of the product before this one are
    // in memory.
    template <Stream kStream, class Between>
    [[gnu::always_inline]] inline void multiply(const std::uint8_t* panel, const std::uint8_t* x,
                                                int steps, float* c, bool first, Between& between,
                                                const std::uint8_t* = nullptr, int = 32) {
      start<kStream>(panel, x, c, first, between);
      go_on<kStream>(panel + kStepBytes, x + kXStep, steps - 1, between);
    }
    // The same in pieces: the first step, and more of them.
    template <Stream kStream, class Between>
    [[gnu::always_inline]] inline void start(const std::uint8_t* panel, const std::uint8_t* x,
                                             float* c, bool first, Between& between) {
      operands<kStream, 2, 2>(t_, panel, x, [&](auto tile) __attribute__((always_inline)) {
        constexpr int n = tile.value;
        if (waiting_ != nullptr) t_.template store<n>(waiting_ + tile_at<n>(32), 32);
        if (first) {
          t_.template zero<n>();
        } else {
          t_.template load<n>(c + tile_at<n>(32), 32);
        }
        if constexpr (Between::kEarly) between(tile);
      });
      for (int d = 1; d < 32 / T::kDepth; ++d) {
        operands<kStream, 2, 2>(t_, panel + kOperand * d, x + kOperand * d, NothingBetween{});
      }
      waiting_ = c;
    }
    template <Stream kStream, class Between>
    [[gnu::always_inline]] inline void go_on(const std::uint8_t* panel, const std::uint8_t* x,
                                             int steps, Between& between) {
      for (int s = 0; s < steps; ++s, panel += kStepBytes, x += kXStep) {
        step<kStream>(t_, panel, x, between, 1);
        for (int d = 1; d < 32 / T::kDepth; ++d) {
          step<kStream>(t_, panel + kOperand * d, x + kOperand * d, NothingBetween{}, 1);
        }
      }
    }
    // The sums of the last product.
    void finish() {
      if (waiting_ != nullptr) end(t_, waiting_, 32);
      waiting_ = nullptr;
    }

   private:
    T t_;
    float* waiting_ = nullptr;
  };

  // The parts of a product of kRows x kColumns tiles, C `stride` floats a row: its beginning, a k
  // step or the first `depth` A tiles of one, its end.
  template <int kRows = 2, int kColumns = 2>
  ORRERY_INLINE void begin(T& t, const float* c, int stride, bool first) {
    each_tile<kRows, kColumns>(stride, [&](auto tile, std::ptrdiff_t at) {
      if (first) {
        t.template zero<tile.value>();
      } else {
        t.template load<tile.value>(c + at, stride);
      }
    });
  }
  template <int kRows = 2, int kColumns = 2>
  ORRERY_INLINE void end(T& t, float* c, int stride) {
    each_tile<kRows, kColumns>(stride, [&](auto tile, std::ptrdiff_t at) {
      t.template store<tile.value>(c + at, stride);
    });
  }
  template <Stream kStream, int kRows = 2, int kColumns = 2, class Between = NothingBetween>
  ORRERY_INLINE void step(T& t, const std::uint8_t* panel, const std::uint8_t* x,
                          Between&& between = {}, int depth = 32 / T::kDepth) {
    for (int d = 0; d < depth; ++d) {
      operands<kStream, kRows, kColumns>(t, panel + kOperand * d, x + kOperand * d, between);
    }
  }

 private:
  static constexpr int kOperand = 32 * T::kDepth;  // bytes of an A or B operand
  static constexpr int kRowBytes = 2 * T::kDepth;  // of a row in an A operand

  template <int n>
  struct Number {
    static constexpr int value = n;
  };
  // Where C tile n is in C: 0 and 1 beside each other, 2 and 3 below.
  template <int n>
  static constexpr std::ptrdiff_t tile_at(int stride) {
    return static_cast<std::ptrdiff_t>(n / 2 * 16) * stride + n % 2 * 16;
  }
  // The products of T::kDepth of k; before(tile) comes before each. An operand that streams is used
  // twice in a row, so that its register is free early.
  template <Stream kStream, int kRows, int kColumns, class F>
  ORRERY_INLINE void operands(T& t, const std::uint8_t* a, const std::uint8_t* b, F&& before) {
    if constexpr (kStream == Stream::x) {
      t.template load_b<0, true>(b);
      t.template load_a<0, false>(a);
      before(Number<0>{}), t.template mac<0, 0, 0>();
      if constexpr (kRows == 2) {
        t.template load_a<1, false>(a + 1024);
        before(Number<2>{}), t.template mac<2, 1, 0>();
      }
      if constexpr (kColumns == 2) {
        t.template load_b<1, true>(b + 1024);
        before(Number<1>{}), t.template mac<1, 0, 1>();
      }
      if constexpr (kRows == 2 && kColumns == 2) before(Number<3>{}), t.template mac<3, 1, 1>();
    } else {
      static_assert(kRows == 2 && kColumns == 2);
      t.template load_a<0, true>(a);
      t.template load_b<0, false>(b);
      before(Number<0>{}), t.template mac<0, 0, 0>();
      t.template load_b<1, false>(b + 1024);
      before(Number<1>{}), t.template mac<1, 0, 1>();
      t.template load_a<1, true>(a + 1024);
      before(Number<2>{}), t.template mac<2, 1, 0>();
      before(Number<3>{}), t.template mac<3, 1, 1>();
    }
  }
  // f(number of a C tile, where it is in C)
  template <int kRows, int kColumns, class F>
  ORRERY_INLINE void each_tile(int stride, F f) {
    f(Number<0>{}, tile_at<0>(stride));
    if constexpr (kColumns == 2) f(Number<1>{}, tile_at<1>(stride));
    if constexpr (kRows == 2) f(Number<2>{}, tile_at<2>(stride));
    if constexpr (kRows == 2 && kColumns == 2) f(Number<3>{}, tile_at<3>(stride));
  }
};

// Panel: L::Weight [step][32 rows][32 k]. A register block is L::kRows weight rows x L::kRegs
// registers of L::kTokens tokens (lanes); weights are broadcast. L::mac adds a pair of k of one
// row.
template <class L>
struct VectorProduct {
  using Weight = typename L::Weight;
  static constexpr int kStepBytes = 1024 * static_cast<int>(sizeof(Weight));
  static constexpr int kPartSteps = 8;  // k steps of a part: 16 or 32 KiB of a panel
  static constexpr bool kBeside = false;

  static void pack(std::uint8_t* step, int row, V::F low, V::F high) {
    L::store_row(reinterpret_cast<Weight*>(step) + 32 * row, low, high);
  }
  template <class W>
  static void pack_weights(std::uint8_t* step, int row, const std::uint8_t* block,
                           const typename W::Shared& shared, int j) {
    if constexpr (sizeof(Weight) == 2) {
      store_weights<W>(reinterpret_cast<Weight*>(step) + 32 * row, block, shared, j);
    } else {
      const auto values = W::unpack(block, shared, j);
      pack(step, row, values.low, values.high);
    }
  }

  // store(target) writes a row as 64 bytes of bf16.
  template <class Store>
  ORRERY_INLINE void place(std::uint8_t* step, int row, Store store) {
    Weight* target = reinterpret_cast<Weight*>(step) + 32 * row;
    if constexpr (sizeof(Weight) == 2) {
      store(target);
    } else {
      std::uint8_t values[64];
      store(values);
      V::store(target, V::load_bf16(values));
      V::store(target + 16, V::load_bf16(values + 32));
    }
  }

  // next_x: the operand of the next product, fetched meanwhile.
  static void multiply(const std::uint8_t* panel, const std::uint8_t* x, int steps, float* c,
                       bool first, const std::uint8_t* next_x = nullptr) {
    const Weight* w = reinterpret_cast<const Weight*>(panel);
    for (int row = 0; row < 32; row += L::kRows) {
      for (int token = 0; token < 32; token += L::kTokens * L::kRegs) {
        const std::uint8_t* source = x + 1024 * (token / 16) + 4 * (token % 16);
        const bool once = row == 0 && token == 0;
        registers<L::kRegs, true>(w + 32 * row, source, 16 * steps, c + 32 * row + token, 32, first,
                                  once ? next_x : nullptr);
      }
    }
  }

  // Nothing is gained from a later store, nor from what comes between, here; but half of the work
  // where the first 16 tokens are all that count.
  struct Chain {
    template <Stream, class Between>
    static void multiply(const std::uint8_t* panel, const std::uint8_t* x, int steps, float* c,
                         bool first, Between&, const std::uint8_t* next_x = nullptr,
                         int tokens = 32) {
      if (tokens > 16) return VectorProduct::multiply(panel, x, steps, c, first, next_x);
      constexpr int kRegs = L::kTokens * L::kRegs > 16 ? L::kRegs / 2 : L::kRegs;
      const Weight* w = reinterpret_cast<const Weight*>(panel);
      for (int row = 0; row < 32; row += L::kRows) {
        for (int token = 0; token < 16; token += L::kTokens * kRegs) {
          registers<kRegs, true>(w + 32 * row, x + 4 * token, 16 * steps, c + 32 * row + token, 32,
                                 first, nullptr);
        }
      }
    }
    static void finish() {}
  };

  // A block of L::kRows x kRegs registers over `pairs` pairs of k, which kWhole says are whole
  // steps; rows of C are `stride` floats apart.
  template <int kRegs, bool kWhole>
  static void registers(const Weight* w, const std::uint8_t* x, int pairs, float* c,
                        std::size_t stride, bool first, const std::uint8_t* ahead) {
    constexpr int kRows = L::kRows;
    typename L::Acc acc[kRows][kRegs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kRegs; ++i) {
        acc[r][i] = first ? L::zero() : L::load(c + r * stride + L::kTokens * i);
      }
    }
    for (int left = pairs; left > 0; left -= 16, w += 1024, x += kXStep) {
      if (ahead != nullptr) prefetch_step(ahead), ahead += kXStep;
      const int here = kWhole || left > 16 ? 16 : left;
      for (int pair = 0; pair < here; ++pair) {
        typename L::Pair p[kRegs];
        for (int i = 0; i < kRegs; ++i) p[i] = L::load_pair(x + 64 * pair + x_offset(i));
        for (int r = 0; r < kRows; ++r) L::template mac<kRegs>(acc[r], p, w + 32 * r + 2 * pair);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kRegs; ++i) L::store(c + r * stride + L::kTokens * i, acc[r][i]);
    }
  }

 private:
  // Registers that cross a group of 16 tokens continue 1024 bytes further in X.
  static constexpr int x_offset(int reg) {
    return L::kTokens * reg / 16 * 1024 + L::kTokens * reg % 16 * 4;
  }
};

}  // namespace
}  // namespace orrery::kernels
