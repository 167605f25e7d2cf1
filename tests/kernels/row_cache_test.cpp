// Tokens into pages: the bytes of every instruction set are those of write_cache_row.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/dispatch.hpp"
#include "tensor/cache_page.hpp"

namespace orrery::kernels {
namespace {

TEST(RowCache, BytesAreThoseOfTheDefinition) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const int dim : {32, 64, 160}) {
    std::vector<std::vector<float>> rows;
    for (const float size : {1.0F, 1e-6F, 1e-20F, 1e9F, 0.0F}) {
      std::vector<float> row(static_cast<std::size_t>(dim));
      for (float& x : row) x = normal(random) * size;
      rows.push_back(row);
    }
    rows.push_back(rows[0]);
    rows.back()[1] = std::numeric_limits<float>::infinity();
    rows.push_back(std::vector<float>(static_cast<std::size_t>(dim), -2.0F));
    rows.push_back(rows[0]);
    rows.back()[0] = 5.0F, rows.back()[31] = -5.0F;  // as large as each other
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
      for (const CacheSide side : {CacheSide::keys, CacheSide::values}) {
        const std::size_t bytes = 64 * row_bytes(type, static_cast<std::uint64_t>(dim));
        std::vector<std::byte> expected(bytes, std::byte{0x77});
        for (std::size_t i = 0; i < rows.size(); ++i) {
          write_cache_row(type, side, dim, static_cast<int>(9 * i), rows[i].data(),
                          expected.data());
        }
        for (const RowKernels* table : available_row_kernels()) {
          std::vector<std::byte> page(bytes, std::byte{0x77});
          for (std::size_t i = 0; i < rows.size(); ++i) {
            table->store_cache(
                {rows[i].data(), page.data(), dim, static_cast<int>(9 * i), type, side});
          }
          EXPECT_TRUE(page == expected) << table->isa << " " << dtype_info(type).name << " " << dim;
        }
      }
    }
  }
}

}  // namespace
}  // namespace orrery::kernels
