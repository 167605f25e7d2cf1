#include "engine/prefill_pace.hpp"

#include <gtest/gtest.h>

namespace orrery::engine {
namespace {

TEST(PrefillPaceTest, NothingIsKnownAtFirst) {
  EXPECT_EQ(PrefillPace().token_seconds(0), 0);
  EXPECT_EQ(PrefillPace().token_seconds(UINT32_MAX), 0);
}

TEST(PrefillPaceTest, EachDepthHasItsOwn) {
  PrefillPace pace;
  pace.measure(2000, 2);
  EXPECT_EQ(pace.token_seconds(0), 2);  // the nearest
  EXPECT_EQ(pace.token_seconds(UINT32_MAX), 2);
  pace.measure(0, 1);
  pace.measure(40000, 5);
  pace.measure(UINT32_MAX, 9);
  EXPECT_EQ(pace.token_seconds(511), 1);
  EXPECT_EQ(pace.token_seconds(1023), 1);
  EXPECT_EQ(pace.token_seconds(1024), 2);
  EXPECT_EQ(pace.token_seconds(32767), 2);
  EXPECT_EQ(pace.token_seconds(32768), 5);
  EXPECT_EQ(pace.token_seconds(UINT32_MAX), 9);
}

TEST(PrefillPaceTest, OneSlowSliceIsNoMeasure) {
  PrefillPace pace;
  pace.measure(0, 1);
  pace.measure(0, 1000);
  EXPECT_LE(pace.token_seconds(0), 1.25);
  for (int i = 0; i < 100; ++i) pace.measure(0, 3);
  EXPECT_NEAR(pace.token_seconds(0), 3, 1e-6);
  for (int i = 0; i < 100; ++i) pace.measure(0, 0.5);
  EXPECT_NEAR(pace.token_seconds(0), 0.5, 1e-6);
}

}  // namespace
}  // namespace orrery::engine
