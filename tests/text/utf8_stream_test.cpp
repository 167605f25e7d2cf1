#include <gtest/gtest.h>

#include <random>
#include <string>

#include "text/tokenizer.hpp"
#include "text/unicode.hpp"

namespace orrery::text {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

TEST(Utf8Stream, HoldsBytesBackUntilTheyAreACharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.push("\x9A"), "");
  EXPECT_EQ(stream.push("\x80!"), "\xF0\x9F\x9A\x80!");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, ReplacesWhatNeverBecomesACharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xFF"), kBad);
  EXPECT_EQ(stream.push("\xE0\xA0"
                        "A"),
            kBad + "A");
  EXPECT_EQ(stream.push("\xED\xA0\x80"), kBad + kBad + kBad);  // a surrogate
  EXPECT_EQ(stream.push("\xC0\xAF"), kBad + kBad);             // a long form
  EXPECT_EQ(stream.push("\xE4\xBD"), "");
  EXPECT_EQ(stream.finish(), kBad);
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, GivesTheSameTextHoweverItIsCut) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 30, ' ');
    for (char& c : bytes)
      c = "\xF0\x9F\x9A\x80\xE4\xBD\xA0\xC3\xA9"
          "az\xFF\xED"[random() % 13];
    Utf8Stream whole, cut;
    std::string expected = whole.push(bytes);
    expected += whole.finish();
    std::string found;
    for (const char c : bytes) found += cut.push(std::string_view(&c, 1));
    found += cut.finish();
    ASSERT_EQ(found, expected);
    ASSERT_TRUE(is_valid_utf8(found));
  }
}

TEST(Unicode, TheByteAlphabetIsAPermutation) {
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::uint32_t code = byte_to_alphabet(static_cast<std::uint8_t>(byte));
    EXPECT_EQ(alphabet_to_byte(code), static_cast<int>(byte));
    EXPECT_EQ(char_class(code) == CharClass::space, false);
  }
  EXPECT_EQ(byte_to_alphabet(' '), 0x120U);
  EXPECT_EQ(byte_to_alphabet('\n'), 0x10AU);
  EXPECT_EQ(alphabet_to_byte(0x144), -1);
  EXPECT_EQ(alphabet_to_byte(' '), -1);
}

TEST(Unicode, EncodesAndDecodesEveryCharacter) {
  for (std::uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, code);
    const CodePoint point = decode_utf8(text, 0);
    ASSERT_TRUE(point.valid);
    ASSERT_EQ(point.code, code);
    ASSERT_EQ(point.length, text.size());
  }
}

TEST(Unicode, NormalizesAndLowers) {
  EXPECT_EQ(normalize("e\xCC\x81", NormalForm::nfc), "\xC3\xA9");
  EXPECT_EQ(normalize("\xC3\xA9", NormalForm::nfd), "e\xCC\x81");
  EXPECT_EQ(normalize("\xEF\xAC\x81", NormalForm::nfkc), "fi");
  EXPECT_EQ(normalize("\xE2\x84\xAB", NormalForm::nfc), "\xC3\x85");
  EXPECT_EQ(lower_case("A\xC3\x84\xE1\xBA\x9E\xC4\xB0"), "a\xC3\xA4\xC3\x9Fi\xCC\x87");
}

}  // namespace
}  // namespace orrery::text
