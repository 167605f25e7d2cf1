// A compiled regular expression (PCRE2, JIT where it is to be had, UTF with Unicode properties).
//
// Patterns come from model files and are written for Oniguruma; the differences that matter are
// levelled: \s is White_Space, ^ and $ match at line ends. Matching is bounded by PCRE2's own
// limits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "base/result.hpp"

namespace orrery::text {

class Regex {
 public:
  // E_PRETOKENIZER with the position where the pattern is wrong.
  static Result<Regex> compile(std::string_view pattern);

  struct Match {
    std::size_t start = 0;
    std::size_t end = 0;
  };
  // The matches one after the other, empty ones too, until there is none or a limit of the matcher
  // is reached. Text that is not well-formed UTF-8 has none: a bad file's tokens and replacements
  // can cut a character.
  void each_match(std::string_view subject, const std::function<void(Match)>& found) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::optional<Match> find(std::string_view subject, std::size_t start) const;
  std::shared_ptr<const Code> code_;
};

}  // namespace orrery::text
