// Packed layout: a permutation of the bytes of sixteen rows, laid out as its header says.
#include "tensor/packed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace orrery {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_rows(DType type, std::uint64_t k) {
  std::mt19937 random(static_cast<unsigned>(k) + static_cast<unsigned>(type));
  Bytes rows(kPackedRows * row_bytes(type, k));
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
  return rows;
}

Bytes packed(DType type, std::uint64_t k, const Bytes& rows) {
  Bytes panel(rows.size(), std::byte{0xAA});
  pack_panel(type, k, rows.data(), panel.data());
  return panel;
}

class Packed : public testing::TestWithParam<DType> {};

TEST_P(Packed, GivesBackTheRowsOfTheFile) {
  for (const std::uint64_t k : {32U, 64U, 96U, 128U, 576U, 1024U, 1056U, 2176U}) {
    const Bytes rows = random_rows(GetParam(), k);
    const Bytes panel = packed(GetParam(), k, rows);
    const std::size_t stride = row_bytes(GetParam(), k);
    for (int r = 0; r < kPackedRows; ++r) {
      Bytes row(stride);
      unpack_row(GetParam(), k, panel.data(), r, row.data());
      const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(stride) * r;
      EXPECT_TRUE(std::equal(row.begin(), row.end(), begin)) << k << ' ' << r;
    }
  }
}

TEST_P(Packed, ARecordTakesTheBytesOfItsBlocks) {
  EXPECT_EQ(static_cast<std::uint32_t>(packed_record(GetParam()).bytes),
            kPackedRows * dtype_info(GetParam()).block_bytes);
}

INSTANTIATE_TEST_SUITE_P(Types, Packed,
                         testing::Values(DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
                                         DType::q8_0),
                         [](const auto& test) { return std::string(dtype_info(test.param).name); });

TEST(PackedLayout, RecordsOfASlabStandByPartialSum) {
  const int groups = 32 + 6;
  std::vector<int> order(groups);
  for (int g = 0; g < groups; ++g) order[static_cast<std::size_t>(packed_position(g, groups))] = g;
  EXPECT_EQ((std::vector<int>(order.begin(), order.begin() + 10)),
            (std::vector<int>{0, 4, 8, 12, 16, 20, 24, 28, 1, 5}));
  EXPECT_EQ((std::vector<int>(order.begin() + 32, order.end())),
            (std::vector<int>{32, 36, 33, 37, 34, 35}));
}

TEST(PackedLayout, AFifthBitStandsAtItsCode) {
  const std::uint64_t k = 32;
  Bytes rows(kPackedRows * row_bytes(DType::q5_0, k));
  const std::size_t row = 3, code = 22;  // word 5, byte 2
  rows[row * row_bytes(DType::q5_0, k) + 2 + code / 8] = std::byte{1 << code % 8};
  const Bytes panel = packed(DType::q5_0, k, rows);
  const auto at = static_cast<std::size_t>(packed_record(DType::q5_0).fifth) + 4 * row + code % 4;
  EXPECT_EQ(panel[at], std::byte{1 << code / 4});
}

TEST(PackedLayout, TakesWholePanelsOfItsTypesOnly) {
  EXPECT_TRUE(is_packable(DType::q4_1, 48, 64));
  EXPECT_FALSE(is_packable(DType::q4_1, 40, 64));
  EXPECT_FALSE(is_packable(DType::q4_1, 48, 40));
  EXPECT_FALSE(is_packable(DType::q4_1, 0, 64));
  EXPECT_FALSE(is_packable(DType::q4_k, 16, 256));
  EXPECT_FALSE(is_packable(DType::f16, 16, 256));
}

}  // namespace
}  // namespace orrery
