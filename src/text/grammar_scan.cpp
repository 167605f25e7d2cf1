#include "text/grammar_scan.hpp"

#include <charconv>
#include <string>

#include "text/grammar_rules.hpp"
#include "text/unicode.hpp"

namespace orrery::text {

bool PatternScanner::take_text(std::string_view expected) {
  if (!rest().starts_with(expected)) return false;
  position_ += expected.size();
  return true;
}

std::optional<std::uint32_t> PatternScanner::code_point() {
  const CodePoint point = decode_utf8(text_, position_);
  if (!point.valid) return std::nullopt;
  position_ += point.length;
  return point.code;
}

std::optional<std::uint32_t> PatternScanner::hex(std::size_t digits) {
  const std::string_view word = rest().substr(0, digits);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, 16);
  if (error != std::errc{} || end != word.data() + digits) return std::nullopt;
  position_ += digits;
  return value;
}

std::optional<std::uint32_t> PatternScanner::number() {
  const std::string_view word = rest();
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || value > kMaxRepetitions) return std::nullopt;
  position_ += static_cast<std::size_t>(end - word.data());
  return value;
}

Result<std::optional<Repetition>> PatternScanner::repetition() {
  if (take_text("*")) return Repetition{0, kUnbounded};
  if (take_text("+")) return Repetition{1, kUnbounded};
  if (take_text("?")) return Repetition{0, 1};
  if (peek() != '{') return std::nullopt;
  const std::string at = "the repetition at byte " + std::to_string(position_);
  take();
  std::optional<std::uint32_t> min = 0;
  if (peek() != ',') min = number();
  std::optional<std::uint32_t> max = min;
  if (take_text(",")) {
    max = kUnbounded;
    if (peek() != '}') max = number();
  }
  if (!min || !max || !take_text("}")) {
    return fail("E_GRAMMAR", at + " is none: write {2}, {2,} or {2,5}, up to " +
                                 std::to_string(kMaxRepetitions));
  }
  if (*min > *max) return fail("E_GRAMMAR", at + " has a minimum above its maximum");
  return Repetition{*min, *max};
}

}  // namespace orrery::text
