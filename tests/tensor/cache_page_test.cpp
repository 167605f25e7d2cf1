// The definition of a cache's bytes: what is written is read back, every token has bytes of its
// own.
#include "tensor/cache_page.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tensor/decode.hpp"
#include "tensor/half.hpp"

namespace orrery {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0};
constexpr CacheSide kSides[] = {CacheSide::keys, CacheSide::values};

std::vector<float> random_row(int n, int seed) {
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  std::normal_distribution<float> normal;
  std::vector<float> row(static_cast<std::size_t>(n));
  for (float& x : row) x = normal(random);
  return row;
}

TEST(CachePage, TokensAreApartAndFillTheirSide) {
  constexpr int kDim = 160;  // five blocks: two of one partial sum
  for (const DType type : kTypes) {
    for (const CacheSide side : kSides) {
      const std::size_t bytes = kCachePageTokens * row_bytes(type, kDim);
      std::vector<int> owner(bytes, -1);
      std::vector<std::byte> page(bytes), other(bytes);
      for (int slot = 0; slot < kCachePageTokens; ++slot) {
        // Bytes that change with the token's values, between two rows that differ everywhere.
        const std::vector<float> row = random_row(kDim, slot);
        std::fill(page.begin(), page.end(), std::byte{0x5A});
        std::fill(other.begin(), other.end(), std::byte{0xA5});
        write_cache_row(type, side, kDim, slot, row.data(), page.data());
        write_cache_row(type, side, kDim, slot, row.data(), other.data());
        for (std::size_t i = 0; i < bytes; ++i) {
          if (page[i] != other[i]) continue;  // not written
          ASSERT_EQ(owner[i], -1) << dtype_info(type).name << " byte " << i;
          owner[i] = slot;
        }
      }
      for (const int slot : owner) ASSERT_NE(slot, -1) << dtype_info(type).name;
    }
  }
}

TEST(CachePage, RowsComeBackRoundedToTheirType) {
  constexpr int kDim = 96;
  for (const DType type : kTypes) {
    for (const CacheSide side : kSides) {
      std::vector<std::byte> page(kCachePageTokens * row_bytes(type, kDim));
      for (int slot = 0; slot < kCachePageTokens; ++slot) {
        write_cache_row(type, side, kDim, slot, random_row(kDim, slot).data(), page.data());
      }
      for (int slot = 0; slot < kCachePageTokens; ++slot) {
        std::vector<float> back(kDim);
        read_cache_row(type, side, kDim, slot, page.data(), back.data());
        const std::vector<float> row = random_row(kDim, slot);
        for (int i = 0; i < kDim; ++i) {
          float largest = 0;
          for (int j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) {
            largest = std::max(largest, std::abs(row[j]));
          }
          // Half a step of the scale, a whole one where Q4_0's range ends at 7.
          const float step = type == DType::q8_0   ? largest / 127 * 0.51F
                             : type == DType::q4_0 ? largest / 8 * 1.01F
                                                   : std::abs(row[i]) * 0x1p-8F;
          ASSERT_NEAR(back[i], row[i], type == DType::f32 ? 0.0F : step + 1e-6F)
              << dtype_info(type).name << " slot " << slot << " element " << i;
        }
      }
    }
  }
}

TEST(CachePage, BlocksAtTheEdges) {
  const auto written = [](DType type, std::vector<float> x) {
    x.resize(32);
    std::vector<std::byte> page(kCachePageTokens * row_bytes(type, 32));
    write_cache_row(type, CacheSide::values, 32, 5, x.data(), page.data());
    read_cache_row(type, CacheSide::values, 32, 5, page.data(), x.data());
    return x;
  };
  for (const DType type : {DType::q8_0, DType::q4_0}) {
    for (const float x : written(type, {})) EXPECT_EQ(x, 0.0F);
    for (const float x : written(type, {0.0F, INFINITY})) EXPECT_TRUE(std::isnan(x));
    for (const float x : written(type, {0.0F, -NAN})) EXPECT_TRUE(std::isnan(x));
    for (const float x : written(type, {3e38F, -3e38F})) EXPECT_TRUE(std::isfinite(x));
    for (const float x : written(type, {1e-20F})) EXPECT_EQ(x, 0.0F);
  }
  EXPECT_EQ(written(DType::q8_0, {-127.0F, 64.5F, 65.5F})[1], 64.0F);  // ties to even
  EXPECT_EQ(written(DType::q8_0, {-127.0F, 64.5F, 65.5F})[2], 66.0F);
  EXPECT_EQ(written(DType::q4_0, {8.0F, -8.0F})[0], 8.0F);  // of two the positive one is exact
  EXPECT_EQ(written(DType::q4_0, {8.0F, -8.0F})[1], -7.0F);
  EXPECT_EQ(written(DType::q4_0, {-8.0F, 7.0F, 7.4F})[1], 7.0F);
}

}  // namespace
}  // namespace orrery
