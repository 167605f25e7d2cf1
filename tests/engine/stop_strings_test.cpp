#include "engine/stop_strings.hpp"

#include <gtest/gtest.h>

#include "engine/random.hpp"

namespace orrery::engine {
namespace {

// The text that comes out when `text` goes in, `piece` bytes at a time.
std::string through(const std::vector<std::string>& stops, std::string_view text, std::size_t piece,
                    bool* found = nullptr) {
  StopStrings stop(stops);
  std::string out;
  for (std::size_t i = 0; i < text.size() && !stop.found(); i += piece) {
    stop.push(text.substr(i, piece), out);
  }
  if (!stop.found()) stop.finish(out);
  if (found != nullptr) *found = stop.found();
  return out;
}

TEST(StopStrings, HoldsBackWhatMayBecomeOne) {
  StopStrings stop({"</end>", "\n\n"});
  std::string out;
  stop.push("text</en", out);
  EXPECT_EQ(out, "text");
  stop.push("t\n", out);
  EXPECT_EQ(out, "text</ent");
  stop.push("a", out);
  EXPECT_EQ(out, "text</ent\na");
  stop.push("\n\nrest", out);
  EXPECT_TRUE(stop.found());
  EXPECT_EQ(out, "text</ent\na");
}

TEST(StopStrings, TheFirstOneWinsAndEmptyOnesAreNone) {
  bool found = false;
  EXPECT_EQ(through({"bcd", "cd", ""}, "abcd", 1, &found), "a");
  EXPECT_TRUE(found);
  EXPECT_EQ(through({""}, "abc", 2, &found), "abc");
  EXPECT_FALSE(found);
}

TEST(StopStrings, PiecesDoNotMatter) {
  Random random(4);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    while (text.size() < 30) text += static_cast<char>('a' + random.next() % 2);
    std::vector<std::string> stops(1 + random.next() % 3);
    for (std::string& s : stops) {
      for (std::uint64_t n = 2 + random.next() % 6; n > 0; --n) {
        s += static_cast<char>('a' + random.next() % 2);
      }
    }
    std::size_t first = text.size();
    for (std::size_t i = 0; i < text.size(); ++i) {  // the first to be complete, then to begin
      bool complete = false;
      for (const std::string& s : stops) {
        if (!std::string_view(text).substr(0, i + 1).ends_with(s)) continue;
        complete = true;
        first = std::min(first, i + 1 - s.size());
      }
      if (complete) break;
    }
    EXPECT_EQ(through(stops, text, 1), text.substr(0, first));
  }
}

}  // namespace
}  // namespace orrery::engine
