// The hand-written scanners split as PCRE2 splits their patterns, on random text of characters that
// the patterns tell apart.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/regex.hpp"
#include "text/scan.hpp"

namespace orrery::text {
namespace {

// Letters of several scripts and cases, marks, numbers, signs, every kind of space, line ends.
constexpr std::string_view kAlphabet[] = {
    "a",
    "s",
    "T",
    "l",
    "L",
    "e",
    "r",
    "V",
    "m",
    "D",
    "'",
    "'",
    " ",
    " ",
    " ",
    "\n",
    "\r",
    "\t",
    "1",
    "2",
    "0",
    ".",
    "-",
    "_",
    "$",
    "\x0b",
    "\x1c",
    "\x7f",
    "\xC2\x85",      // U+0085, white space
    "\xC2\xA0",      // U+00A0
    "\xE3\x80\x80",  // U+3000
    "\xE1\xA0\x8E",  // U+180E, no white space
    "\xE2\x80\x8B",  // U+200B, none either
    "\xC5\xBF",      // U+017F, long s: a contraction's s in any case
    "\xC3\xA9",
    "\xE4\xBD\xA0",
    "\xCC\x81",
    "\xC2\xBD",
    "\xE2\x85\xA7",
    "\xD9\xA3",
    "\xF0\x9F\x9A\x80",
    "\xE2\x84\xAA"};

std::string random_text(std::mt19937& random) {
  std::string text;
  const std::size_t n = random() % 40;
  for (std::size_t i = 0; i < n; ++i) {
    const std::string_view piece = kAlphabet[random() % std::size(kAlphabet)];
    const std::size_t repeats = random() % 8 == 0 ? 1 + random() % 5 : 1;
    for (std::size_t r = 0; r < repeats; ++r) text += piece;
  }
  return text;
}

std::vector<std::string> by_scanner(const Scanner& scanner, std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = scan_word(scanner, text, at);
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string> by_regex(const Regex& regex, std::string_view text) {
  std::vector<std::string> words;
  std::size_t at = 0;
  bool gap = false;
  regex.each_match(text, [&](Regex::Match match) {
    gap = gap || match.start != at || match.end == at;
    words.emplace_back(text.substr(at, match.end - at));
    at = match.end;
  });
  if (gap || at != text.size()) return {"the pattern left a gap"};
  return words;
}

class ScannerTest : public testing::TestWithParam<std::string_view> {};

TEST_P(ScannerTest, SplitsAsItsPattern) {
  const auto scanner = scanner_for(GetParam());
  ASSERT_TRUE(scanner);
  const auto regex = Regex::compile(GetParam());
  ASSERT_TRUE(regex) << regex.error().message;
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = random_text(random);
    ASSERT_EQ(by_scanner(*scanner, text), by_regex(*regex, text)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScannerTest,
                         testing::Values(kGpt2Pattern, kLlama3Pattern, kQwen2Pattern));

std::vector<std::string> matches(const Regex& regex, std::string_view text) {
  std::vector<std::string> found;
  regex.each_match(text, [&](Regex::Match match) {
    found.push_back(std::to_string(match.start) + "-" + std::to_string(match.end));
  });
  return found;
}

TEST(Regex, RefusesAPatternThatDoesNotCompile) {
  const auto regex = Regex::compile("a(b");
  ASSERT_FALSE(regex);
  EXPECT_EQ(regex.error().kind, "E_PRETOKENIZER");
  EXPECT_FALSE(Regex::compile(std::string(70000, 'a')));
}

TEST(Regex, GivesUpOnExplosivePatterns) {
  const auto regex = Regex::compile("(a|aa|a?)+$b");
  ASSERT_TRUE(regex);
  EXPECT_EQ(matches(*regex, std::string(2000, 'a') + "c"), std::vector<std::string>{});
}

TEST(Regex, EmptyMatchesMoveOnByACharacter) {
  const auto regex = Regex::compile("b*");
  ASSERT_TRUE(regex);
  EXPECT_EQ(matches(*regex, "bb\xC3\xA9"), (std::vector<std::string>{"0-2", "2-2", "4-4"}));
  EXPECT_EQ(matches(*regex, ""), std::vector<std::string>{"0-0"});
}

TEST(Regex, ATextWithACutCharacterHasNoMatch) {
  const auto regex = Regex::compile(".");
  ASSERT_TRUE(regex);
  EXPECT_EQ(matches(*regex, "a\xC3"), std::vector<std::string>{});
  EXPECT_EQ(matches(*regex, "\x80"), std::vector<std::string>{});
}

}  // namespace
}  // namespace orrery::text
