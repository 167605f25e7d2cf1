#include "memory/region.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace orrery::memory {
namespace {

TEST(Region, IsZeroedAlignedAndWritable) {
  for (const std::uint64_t bytes : {1ULL, 4096ULL, 5000ULL, 3ULL << 20}) {
    auto region = Region::map(bytes);
    ASSERT_TRUE(region);
    EXPECT_EQ(region->size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region->data()) % 4096, 0U);
    if (bytes >= 2 << 20) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region->data()) % (2 << 20), 0U);
    }
    for (std::uint64_t i = 0; i < bytes; i += 1000) EXPECT_EQ(region->data()[i], std::byte{0});
    std::memset(region->data(), 0xA5, bytes);
  }
}

TEST(Region, EmptyAndTooLarge) {
  EXPECT_EQ(Region::map(0)->data(), nullptr);
  EXPECT_EQ(Region::map(~0ULL).error().kind, "E_MEMORY");
  EXPECT_EQ(Region::map(1ULL << 60).error().kind, "E_MEMORY");
}

TEST(Region, MovesItsMemory) {
  Region a = *Region::map(8192);
  std::byte* data = a.data();
  Region b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT: the moved-from state is the contract
}

TEST(RegionDeathTest, GuardPagesStandOnBothSides) {
  Region region = *Region::map(4096);
  volatile std::byte* data = region.data();
  EXPECT_DEATH(data[-1] = std::byte{1}, "");
  EXPECT_DEATH(data[4096] = std::byte{1}, "");
}

}  // namespace
}  // namespace orrery::memory
