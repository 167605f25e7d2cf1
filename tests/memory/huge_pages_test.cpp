// What the kernel says about the pages of a range.
#include "memory/huge_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "memory/region.hpp"

namespace orrery::memory {
namespace {

TEST(HugePages, CountsThoseOfTheRangeAlone) {
  constexpr std::size_t kBytes = 8U << 20U;
  const auto region = Region::map(kBytes);
  const auto other = Region::map(kBytes);
  ASSERT_TRUE(region && other);
  const std::span<const std::byte> range(region->data(), kBytes);
  EXPECT_EQ(huge_mapped(range), 0U);  // not touched yet
  std::memset(other->data(), 1, kBytes);
  EXPECT_EQ(huge_mapped(range), 0U);
  std::memset(region->data(), 1, kBytes);
  const std::uint64_t huge = huge_mapped(range);
  EXPECT_LE(huge, kBytes);
  if (huge == 0) GTEST_SKIP() << "this kernel gives no huge pages to anonymous memory";
  EXPECT_EQ(huge % (2U << 20U), 0U);
}

}  // namespace
}  // namespace orrery::memory
