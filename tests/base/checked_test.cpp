#include "base/checked.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/topology.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Checked, OverflowIsEmptyAndStaysEmpty) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_FALSE(checked_add(kMax, 1));
  EXPECT_EQ(checked_mul(1ULL << 32, (1ULL << 32) - 1), 0xFFFFFFFF00000000ULL);
  EXPECT_FALSE(checked_mul(1ULL << 32, 1ULL << 32));
  EXPECT_FALSE(checked_add(checked_mul(1ULL << 33, 1ULL << 33), 1));
}

TEST(Checked, AlignmentWrapsAreCaught) {
  EXPECT_EQ(checked_align_up(33, 32), 64U);
  EXPECT_EQ(checked_align_up(64, 32), 64U);
  EXPECT_FALSE(checked_align_up(kMax - 3, 32));
  EXPECT_EQ(align_up(1, 4096), 4096U);
  EXPECT_EQ(ceil_div(65, 64), 2U);
}

Result<int> half(int x) {
  if (x % 2 != 0) return fail("E_ODD", "the number is odd");
  return x / 2;
}

Result<int> quarter(int x) {
  ORRERY_TRY(const int h, half(x));
  return half(h);
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(7).error().kind, "E_ODD");
  EXPECT_EQ(quarter(6).error().kind, "E_ODD");
  EXPECT_EQ(fail_in("file.gguf", quarter(7).error()).error().message,
            "file.gguf: the number is odd");
}

TEST(CheckDeathTest, ABugEndsTheProcessWithItsPlace) {
  EXPECT_DEATH(ORRERY_CHECK(1 + 1 == 3), "checked_test.cpp:.*1 \\+ 1 == 3");
}

TEST(Clock, TicksAgreeWithSeconds) {
  const double start = now_seconds();
  const std::uint64_t ticks = clock_ticks();
  while (now_seconds() - start < 0.02) {
  }
  const double elapsed = now_seconds() - start;
  EXPECT_NEAR(ticks_to_seconds(clock_ticks() - ticks), elapsed, 0.25 * elapsed);
}

TEST(Topology, ThisMachineHasAProcessorAndMemory) {
  EXPECT_GE(available_cpus().size(), 1U);
  EXPECT_GE(physical_cores(), 1);
  EXPECT_LE(static_cast<std::size_t>(physical_cores()), available_cpus().size());
  EXPECT_GT(available_memory(), 1ULL << 20);
  EXPECT_FALSE(cpu_model().empty());
  EXPECT_FALSE(pin_thread(1 << 20));
}

}  // namespace
}  // namespace orrery
