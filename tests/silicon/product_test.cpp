// Every way to compute a product, on every instruction set of this machine and emulated, against
// sums in double precision.
#include "silicon/product.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "silicon/blas.hpp"
#include "support/sanitized.hpp"
#include "tensor/decode.hpp"
#include "tensor/half.hpp"

namespace orrery::silicon {
namespace {

struct Shape {
  int m, n, k;
};

// Sizes of the benchmark, edges of blocks, and one whose packed product is many tasks and parts.
std::vector<Shape> shapes() {
  std::vector<Shape> all = {{16, 16, 16}, {32, 32, 32}, {33, 48, 64}, {96, 96, 96}, {17, 100, 45}};
  if (!test::kSanitized) all.push_back({130, 290, 544});
  return all;
}

void expect_product(const Problem& problem, WeightType type, Precision precision,
                    const Product& product, const std::string& what) {
  for (int i = 0; i < problem.m; ++i) {
    for (int j = 0; j < problem.n; ++j) {
      const auto expected = problem.expected(type, precision, i, j);
      ASSERT_NEAR(product.output(i, j), expected.value, expected.bound)
          << what << " " << name_of(type) << " " << problem.m << " x " << problem.n << " x "
          << problem.k << " at " << i << ", " << j;
    }
  }
}

TEST(SiliconProduct, EveryKernelSetTypeAndTeamMatchesTheReference) {
  for (const kernels::KernelSet& set : kernels::available_kernels()) {
    for (const int threads : {1, 3}) {
      ThreadTeam team(threads);
      const KernelThreads begun(team, *set.blocks);
      for (const Shape& shape : shapes()) {
        const Problem problem = Problem::make(shape.m, shape.n, shape.k).value();
        const auto packed = make_packed_product(problem, *set.blocks, team).value();
        packed->pack();
        for (int run = 0; run < 2; ++run) packed->run();  // a second run adds nothing
        expect_product(problem, WeightType::bf16, Precision::b16, *packed, set.name + " packed");
        for (const WeightType type : kWeightTypes) {
          if (!fits(type, problem.k)) continue;
          const auto blocks = make_block_product(problem, type, set, team).value();
          blocks->pack();
          blocks->run();
          expect_product(problem, type, Precision::b16, *blocks, set.name + " blocks");
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Those that are split into tasks over the whole of k, with edges; outputs are drawn from all over.
TEST(SiliconProduct, LargePackedProductsMatchTheReference) {
  if (test::kSanitized) GTEST_SKIP() << "takes too long";
  for (const kernels::KernelSet& set : kernels::available_kernels()) {
    for (const Shape& shape : {Shape{769, 1030, 40}, {800, 770, 1070}}) {
      ThreadTeam team(3);
      const KernelThreads begun(team, *set.blocks);
      const Problem problem = Problem::make(shape.m, shape.n, shape.k).value();
      const auto packed = make_packed_product(problem, *set.blocks, team).value();
      packed->pack();
      for (int run = 0; run < 2; ++run) packed->run();
      for (int i = 0; i < shape.m * shape.n; i += 97) {
        const int row = i / shape.n, column = i % shape.n;
        const auto expected = problem.expected(WeightType::bf16, Precision::b16, row, column);
        ASSERT_NEAR(packed->output(row, column), expected.value, expected.bound)
            << set.name << " " << shape.m << " x " << shape.n << " x " << shape.k << " at " << row
            << ", " << column;
      }
    }
  }
}

TEST(SiliconProduct, TheSystemBlasIsExactToItsPrecision) {
  const auto blas = Blas::open();
  if (blas == nullptr) GTEST_SKIP() << "OpenBLAS is not on this machine";
  const Problem problem = Problem::make(40, 56, 72).value();
  const auto product = blas->product(problem, 1).value();
  product->pack();
  product->run();
  expect_product(problem, WeightType::f32, Precision::f32, *product, "OpenBLAS");
  EXPECT_FALSE(blas->description().empty());
}

// The report's own reference against the decoder of files: another route to the same weights.
TEST(SiliconProblem, EncodedWeightsAreThoseOfTheReference) {
  const kernels::KernelSet set = kernels::available_kernels().back();
  const Problem problem = Problem::make(3, 5, 64).value();
  for (const WeightType type : kWeightTypes) {
    const memory::Region encoded = problem.encode(type, *set.rows).value();
    const std::size_t stride = row_bytes(dtype_of(type), 64);
    std::vector<float> row(64);
    for (int r = 0; r < problem.n; ++r) {
      const void* source = type == WeightType::f32 ? static_cast<const void*>(problem.w() + r * 64)
                                                   : encoded.data() + r * stride;
      decode_row(dtype_of(type), static_cast<const std::byte*>(source), row.data(), 64);
      for (int t = 0; t < problem.m; ++t) {
        double sum = 0;
        for (int i = 0; i < 64; ++i) {
          sum += double(bf16_to_f32(f32_to_bf16(row[i]))) *
                 bf16_to_f32(f32_to_bf16(problem.x()[t * 64 + i]));
        }
        EXPECT_NEAR(problem.expected(type, Precision::b16, t, r).value, sum, 1e-12)
            << name_of(type) << " row " << r;
      }
      // Codes are spread over the values, not all one.
      EXPECT_GT(*std::ranges::max_element(row) - *std::ranges::min_element(row), 1.0F);
      for (int i = 0; i < 64; ++i) {
        const float step = type == WeightType::int4 ? 0.13F : 0.01F;
        EXPECT_NEAR(row[i], problem.w()[r * 64 + i], step) << name_of(type);
      }
    }
  }
}

TEST(SiliconProblem, RowsOfBlocksAreWhole) {
  EXPECT_TRUE(fits(WeightType::bf16, 16));
  EXPECT_FALSE(fits(WeightType::int8, 16));
  EXPECT_FALSE(fits(WeightType::int4, 48));
  EXPECT_TRUE(fits(WeightType::int4, 96));
}

}  // namespace
}  // namespace orrery::silicon
