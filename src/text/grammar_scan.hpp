// What the readers of grammars and of patterns share.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.hpp"

namespace orrery::text {

struct Repetition {
  std::uint32_t min = 0;
  std::uint32_t max = 0;  // or kUnbounded
};

class PatternScanner {
 public:
  static constexpr std::uint32_t kMaxRepetitions = 1'000'000'000;

  explicit PatternScanner(std::string_view text) : text_(text) {}

  std::string_view text() const { return text_; }
  std::size_t position() const { return position_; }
  std::string_view rest() const { return text_.substr(position_); }
  bool at_end() const { return position_ == text_.size(); }
  // NUL behind the end.
  char peek(std::size_t ahead = 0) const {
    return ahead < text_.size() - position_ ? text_[position_ + ahead] : '\0';
  }
  char take() { return text_[position_++]; }
  bool take_text(std::string_view expected);

  // A whole character; nothing where the bytes are no UTF-8.
  std::optional<std::uint32_t> code_point();
  // Exactly so many digits, at most 8.
  std::optional<std::uint32_t> hex(std::size_t digits);
  // One of * + ? {m} {m,} {m,n} {,n}, or nothing. E_GRAMMAR for braces that hold something else.
  Result<std::optional<Repetition>> repetition();

 private:
  std::optional<std::uint32_t> number();

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace orrery::text
