#include "server/keep_alive.hpp"

#include <gtest/gtest.h>

namespace orrery::server {
namespace {

using namespace std::chrono_literals;

TEST(KeepAlive, ReadsSecondsAndDurations) {
  const std::pair<const char*, Keep> cases[] = {
      {"0", 0ms},        {"300", 300s},    {"1.5", 1500ms},      {"5m", 5min},
      {"1h30m", 90min},  {"250ms", 250ms}, {"1m0.5s", 60'500ms}, {"-1", kForever},
      {"-1m", kForever}, {"-0", 0ms},      {"-0s", 0ms},         {"0s", 0ms},
      {"87600h", 87600h}};
  for (const auto& [text, keep] : cases) {
    const auto read = parse_keep_alive(text);
    ASSERT_TRUE(read.has_value()) << text;
    EXPECT_EQ(*read, keep) << text;
  }
  EXPECT_EQ(*keep_alive_of(-1), kForever);
  EXPECT_EQ(*keep_alive_of(0.25), 250ms);
}

TEST(KeepAlive, RefusesWhatIsNone) {
  for (const char* text :
       {"", "-", ".", "5x", "m", "5 m", " 5m", "1000y", "5m5", "1e9", "inf", "nan", "--1", "1.2.3",
        "99999999999999999999", "87601h", "5m-1s", "0x10"}) {
    const auto read = parse_keep_alive(text);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().kind, "E_PARAM");
  }
  EXPECT_FALSE(keep_alive_of(1e300).has_value());
}

}  // namespace
}  // namespace orrery::server
