// Decoders and sums of rows against the scalar definitions, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/dispatch.hpp"
#include "support/random_blocks.hpp"
#include "tensor/decode.hpp"

namespace orrery::kernels {
namespace {

TEST(RowDecode, EqualsTheDefinitionOfEveryType) {
  std::mt19937 random(5);
  for (const RowKernels* table : available_row_kernels()) {
    int types = 0;
    for (std::uint32_t id = 0; id < kMaxDTypeId; ++id) {
      const auto decode = table->decode->decode[id];
      if (decode == nullptr) continue;
      const DType type = *dtype_from_id(id);
      SCOPED_TRACE(std::string(table->isa) + " " + std::string(dtype_info(type).name));
      ++types;
      const bool plain = dtype_info(type).block_len == 1;
      for (const std::uint32_t n : plain ? std::vector<std::uint32_t>{1, 15, 16, 80, 576}
                                         : std::vector<std::uint32_t>{256, 512}) {
        const auto row = test::random_weights(type, 1, n, 1.0F, random);
        std::vector<float> expected(n), got(n + 1, 7.0F);
        decode_row(type, row.data(), expected.data(), n);
        decode(row.data(), static_cast<int>(n), got.data());
        EXPECT_EQ(got.back(), 7.0F);
        got.pop_back();
        EXPECT_EQ(got, expected);
      }
    }
    EXPECT_GE(types, 17);
  }
}

TEST(RowDecode, SumsOfRowsAreFmaInOrder) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  for (const RowKernels* table : available_row_kernels()) {
    for (const int cols : {1, 16, 80, 100, 512}) {
      const int n = 11, stride = cols + 3;
      std::vector<float> rows(static_cast<std::size_t>(n * stride)), factors(n), out(cols);
      for (auto* values : {&rows, &factors, &out}) {
        for (float& v : *values) v = normal(random);
      }
      std::vector<float> expected = out;
      for (int j = 0; j < n; ++j) {
        for (int i = 0; i < cols; ++i) {
          float& sum = expected[static_cast<std::size_t>(i)];
          sum = std::fma(factors[static_cast<std::size_t>(j)],
                         rows[static_cast<std::size_t>(j * stride + i)], sum);
        }
      }
      table->decode->add_rows(
          {rows.data(), static_cast<std::size_t>(stride), n, cols, factors.data(), out.data()});
      EXPECT_EQ(out, expected) << table->isa << " " << cols;
    }
  }
}

}  // namespace
}  // namespace orrery::kernels
