// Products of two prepared operands (class b16): the panels and X blocks of the prefill matmul,
// made beforehand, and a row-major result. Groups of 16 rows and of 16 columns that are not there
// cost nothing, so that a product of 16 x 16 is one tile or a few register blocks.
#pragma once

#include "kernels/body/block_layout.hpp"
#include "kernels/body/block_panels.hpp"
#include "kernels/body/block_product.hpp"

namespace orrery::kernels {
namespace {

// At most 32 rows times 32 columns: multiply(panel, x, k, add, rows, columns, c, stride).
template <class P>
struct OperandProduct;

template <class T>
struct OperandProduct<TileProduct<T>> {
  static void multiply(const std::uint8_t* panel, const std::uint8_t* x, int k, bool add, int rows,
                       int columns, float* c, std::size_t stride) {
    const int floats = static_cast<int>(stride);
    if (rows > 16) {
      columns > 16 ? tiles<2, 2>(panel, x, k, add, c, floats)
                   : tiles<2, 1>(panel, x, k, add, c, floats);
    } else {
      columns > 16 ? tiles<1, 2>(panel, x, k, add, c, floats)
                   : tiles<1, 1>(panel, x, k, add, c, floats);
    }
  }

 private:
  template <int kRows, int kColumns>
  static void tiles(const std::uint8_t* panel, const std::uint8_t* x, int k, bool add, float* c,
                    int stride) {
    using Tiles = TileProduct<T>;
    T t;
    Tiles::template begin<kRows, kColumns>(t, c, stride, !add);
    for (; k > 0; k -= 32, panel += Tiles::kStepBytes, x += kXStep) {
      const int depth = ceil_div(k < 32 ? k : 32, T::kDepth);
      Tiles::template step<Stream::x, kRows, kColumns>(t, panel, x, NothingBetween{}, depth);
    }
    Tiles::template end<kRows, kColumns>(t, c, stride);
  }
};

template <class L>
struct OperandProduct<VectorProduct<L>> {
  static void multiply(const std::uint8_t* panel, const std::uint8_t* x, int k, bool add, int rows,
                       int columns, float* c, std::size_t stride) {
    using Vectors = VectorProduct<L>;
    constexpr int kWide = L::kTokens * L::kRegs;  // columns of a register block
    const int pairs = ceil_div(k, 2), wanted = ceil_div(columns, 16) * 16;
    const auto* w = reinterpret_cast<const typename L::Weight*>(panel);
    for (int row = 0; row < ceil_div(rows, 16) * 16; row += L::kRows, w += 32 * L::kRows) {
      float* target = c + row * stride;
      int column = 0;
      for (; column + kWide <= wanted; column += kWide) {
        Vectors::template registers<L::kRegs, false>(w, x + 64 * column, pairs, target + column,
                                                     stride, !add, nullptr);
      }
      if constexpr (kWide > 16) {
        if (column < wanted) {
          Vectors::template registers<1, false>(w, x + 64 * column, pairs, target + column, stride,
                                                !add, nullptr);
        }
      }
    }
  }
};

template <class P>
struct BlockOperands {
  static std::size_t bytes(int m, int k) {
    return static_cast<std::size_t>(ceil_div(m, 32)) * ceil_div(k, 32) * P::kStepBytes;
  }

  static void pack_rows(const float* rows, std::size_t stride, int m, int k, void* a) {
    const int steps = ceil_div(k, 32);
    for (int row = 0; row < m; ++row) {
      std::uint8_t* step = operand(a, row, steps);
      const float* source = rows + row * stride;
      for (int at = 0; at < k; at += 32, step += P::kStepBytes) {
        P::pack(step, row % 32, part(source + at, k - at), part(source + at + 16, k - at - 16));
      }
    }
    for (int row = m; row % 16 != 0; ++row) {
      std::uint8_t* step = operand(a, row, steps);
      for (int at = 0; at < k; at += 32, step += P::kStepBytes) {
        P::pack(step, row % 32, V::zero(), V::zero());
      }
    }
  }

  static void pack_columns(const float* rows, std::size_t stride, int n, int k, void* b) {
    const std::size_t block = static_cast<std::size_t>(ceil_div(k, 32)) * kXStep;
    for (int row = 0; row < n; row += 32) {
      rows_to_x(rows + row * stride, stride, n - row < 32 ? n - row : 32, k,
                static_cast<std::uint8_t*>(b) + row / 32 * block);
    }
  }

  static void multiply(const MatmulOperands& a) {
    const int steps = ceil_div(a.of_k != 0 ? a.of_k : a.k, 32);
    const auto* x = static_cast<const std::uint8_t*>(a.b);
    const std::size_t block = static_cast<std::size_t>(steps) * kXStep;
    for (int row = 0; row < a.m; row += 32) {
      const std::uint8_t* panel = operand(a.a, row, steps);
      for (int column = 0; column < a.n; column += 32) {
        OperandProduct<P>::multiply(panel, x + column / 32 * block, a.k, a.add,
                                    at_most_32(a.m - row), at_most_32(a.n - column),
                                    a.c + row * a.c_stride + column, a.c_stride);
      }
    }
  }

 private:
  // 16 of a row that has `left` more.
  ORRERY_INLINE V::F part(const float* p, int left) {
    return left >= 16 ? V::load(p) : left > 0 ? V::load_partial(p, left) : V::zero();
  }
  static int at_most_32(int count) { return count < 32 ? count : 32; }
  static std::size_t offset(int row, int steps) {
    return static_cast<std::size_t>(row / 32) * steps * P::kStepBytes;
  }
  static std::uint8_t* operand(void* a, int row, int steps) {
    return static_cast<std::uint8_t*>(a) + offset(row, steps);
  }
  static const std::uint8_t* operand(const void* a, int row, int steps) {
    return static_cast<const std::uint8_t*>(a) + offset(row, steps);
  }
};

}  // namespace
}  // namespace orrery::kernels
