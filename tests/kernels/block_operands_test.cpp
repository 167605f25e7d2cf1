// Products of two packed operands, of every shape and instruction set, against sums in double
// precision.
#include <algorithm>
#include <array>

#include "kernels/block_support.hpp"

namespace orrery::kernels {
namespace {

struct Operands {
  int m, n, k;
  std::vector<float> a, b;  // (m, k), (n, k), rows `stride` floats apart
  std::size_t stride;

  Operands(int rows, int columns, int depth)
      : m(rows), n(columns), k(depth), stride(static_cast<std::size_t>(depth) + 3) {
    a = random_floats(m * stride, 1);
    b = random_floats(n * stride, 2);
  }
};

class BlockPackedTest : public BlockTest {
 protected:
  // (m rounded up, n rounded up), NaN where nothing was written.
  std::vector<float> product(const Operands& o) {
    Aligned<std::byte> a(blocks->operand_bytes(o.m, o.k));
    Aligned<std::byte> b(round_up(o.n, 32) * round_up(o.k, 32) * 2, std::byte{0xFF});
    blocks->pack_rows(o.a.data(), o.stride, o.m, o.k, a.data());
    blocks->pack_columns(o.b.data(), o.stride, o.n, o.k, b.data());
    const std::size_t c_stride = round_up(o.n, 16);
    std::vector<float> c(round_up(o.m, 16) * c_stride + 1, NAN);
    blocks->matmul_operands({a.data(), b.data(), o.m, o.n, o.k, c.data(), c_stride});
    EXPECT_TRUE(std::isnan(c.back())) << "written past the end";
    return c;
  }

  void expect_close(const Operands& o, const std::vector<float>& c) {
    for (int i = 0; i < o.m; ++i) {
      for (int j = 0; j < o.n; ++j) {
        double sum = 0, size = 0;
        for (int at = 0; at < o.k; ++at) {
          const double p =
              double(rounded_bf16(o.a[i * o.stride + at])) * rounded_bf16(o.b[j * o.stride + at]);
          sum += p, size += std::abs(p);
        }
        ASSERT_NEAR(c[i * round_up(o.n, 16) + j], sum, gamma_f32(o.k + 4) * size + 1e-30)
            << o.m << " x " << o.n << " x " << o.k << " at " << i << ", " << j;
      }
    }
  }
};

TEST_P(BlockPackedTest, EveryShapeMatchesTheReference) {
  for (const int m : {1, 16, 17, 32, 49, 64}) {
    for (const int n : {1, 16, 17, 32, 48, 70}) {
      for (const int k : {1, 16, 31, 32, 45, 128}) {
        const Operands o(m, n, k);
        expect_close(o, product(o));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A group of rows or columns that is not there is neither read nor written.
TEST_P(BlockPackedTest, BitsDoNotDependOnTheOtherRowsAndColumns) {
  const Operands whole(64, 64, 96);
  Operands part = whole;
  part.m = 16, part.n = 16;
  const std::vector<float> all = product(whole), few = product(part);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) ASSERT_EQ(few[i * 16 + j], all[i * 64 + j]) << i << ", " << j;
  }
}

// A product in parts of k is the sum of the parts.
TEST_P(BlockPackedTest, PartsOfKAddUp) {
  for (const int side : {16, 40, 64}) {
    const Operands o(side, side, 160);
    Aligned<std::byte> a(blocks->operand_bytes(o.m, o.k));
    Aligned<std::byte> b(round_up(o.n, 32) * o.k * 2);
    blocks->pack_rows(o.a.data(), o.stride, o.m, o.k, a.data());
    blocks->pack_columns(o.b.data(), o.stride, o.n, o.k, b.data());
    const std::size_t c_stride = round_up(o.n, 16);
    std::vector<float> c(round_up(o.m, 16) * c_stride, NAN);
    const auto part = [&](int k, int count) {
      blocks->matmul_operands({a.data() + k / 32 * blocks->operand_step_bytes,
                               b.data() + k / 32 * 2048, o.m, o.n, count, c.data(), c_stride, o.k,
                               k > 0});
    };
    part(0, 64), part(64, 96);
    expect_close(o, c);
  }
}

// A task writes its rows and columns, in groups of 16 columns, from parts of k and edges of all
// kinds.
TEST_P(BlockPackedTest, TasksMatchTheReference) {
  if (blocks->matmul_task == nullptr) GTEST_SKIP() << "no tasks over the whole of k";
  const int part = blocks->operand_part_k;
  for (const auto& [m, n, k] : {std::array{64, 96, 2 * part},
                                {33, 16, 45},
                                {48, 70, part},
                                {1, 97, part + 33},
                                {97, 33, 2 * part + 490},
                                {150, 40, 3}}) {
    const Operands o(m, n, k);
    const int packed = static_cast<int>(round_up(k, 32)) + 64;  // panels lie apart
    const std::size_t a_stride = blocks->operand_bytes(32, packed);
    const std::size_t b_stride = round_up(packed, 32) * 64;
    Aligned<std::byte> a(round_up(m, 32) / 32 * a_stride), b(round_up(n, 32) / 32 * b_stride);
    for (int row = 0; row < m; row += 32) {
      blocks->pack_rows(o.a.data() + row * o.stride, o.stride, std::min(32, m - row), k,
                        a.data() + row / 32 * a_stride);
    }
    for (int row = 0; row < n; row += 32) {
      blocks->pack_columns(o.b.data() + row * o.stride, o.stride, std::min(32, n - row), k,
                           b.data() + row / 32 * b_stride);
    }
    const std::size_t c_stride = round_up(n, 16);
    Aligned<float> c((m + 1) * c_stride, NAN), sums(round_up(m, 32) * round_up(n, 32), NAN);
    blocks->matmul_task({a.data(), b.data(), a_stride, b_stride, m, n, k, c.data(), c_stride,
                         sums.data(), a.data(), b.data()});
    expect_close(o, {c.data(), c.data() + m * c_stride});
    for (std::size_t i = 0; i < c_stride; ++i) {
      ASSERT_TRUE(std::isnan(c[m * c_stride + i])) << "written past the last row";
    }
    if (HasFatalFailure()) return;
  }
}

// The columns are X blocks as prefill has them.
TEST_P(BlockPackedTest, ColumnsAreXBlocks) {
  const int n = 40, k = 45;
  const Operands o(1, n, k);
  Aligned<std::uint16_t> b(round_up(n, 32) * round_up(k, 32), 0xFFFF);
  blocks->pack_columns(o.b.data(), o.stride, n, k, b.data());
  for (int j = 0; j < 64; ++j) {
    for (int f = 0; f < 64; ++f) {
      const bool there = j < n && f < k;
      const std::uint16_t expected = j >= 48 ? 0xFFFF
                                     : there ? f32_to_bf16(o.b[j * o.stride + f])
                                             : std::uint16_t{0};
      ASSERT_EQ(x_bits(b.data(), k, j, f), expected) << j << ", " << f;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, BlockPackedTest, kBlockIsas, isa_name);

}  // namespace
}  // namespace orrery::kernels
