#include "silicon/arena.hpp"

#include <gtest/gtest.h>

namespace orrery::silicon {
namespace {

TEST(ArenaBenchmark, MeasuresEveryAllocatorThatIsThere) {
  const ArenaReport report = run_arena({.seconds = 1e-3, .program = ""}).value();
  ASSERT_EQ(report.allocators.size(), 4U);
  EXPECT_EQ(report.allocators[0].name, "arena");
  for (const AllocatorTime& time : report.allocators) {
    for (const Timing& timing : {time.allocate, time.free_all, time.touch}) {
      EXPECT_GT(timing.best, 0) << time.name;
      EXPECT_LE(timing.best, timing.median) << time.name;
    }
    EXPECT_FALSE(time.does.empty());
  }
  // Orders of magnitude, so true on a busy machine too.
  EXPECT_LT(report.allocators[0].allocate.best * 10, report.allocators[3].allocate.best);
  EXPECT_EQ(report.missing.size(), 2U);  // jemalloc and mimalloc need a program to be put into
  for (const ProtectionTime& time : report.protections) {
    EXPECT_NE(time.pair.best > 0, !time.missing.empty()) << time.name;
  }
  EXPECT_NE(to_text(report).find("first touch"), std::string::npos);
}

TEST(ArenaBenchmark, ReadsTheLineThatItPrints) {
  const AllocatorTime time = parse_malloc_line(malloc_line(1e-3)).value();
  EXPECT_GT(time.touch.median, 0);
  EXPECT_FALSE(time.name.empty());
  EXPECT_EQ(parse_malloc_line("malloc 1 2").error().kind, "E_ALLOCATOR");
  EXPECT_EQ(parse_malloc_line("").error().kind, "E_ALLOCATOR");
}

}  // namespace
}  // namespace orrery::silicon
