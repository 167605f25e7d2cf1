// What the readers of replies share: blanks, and marks that come in pieces.
#pragma once

#include <algorithm>
#include <string_view>

namespace orrery::text {

inline constexpr std::string_view kBlanks = " \t\r\n";

inline bool is_blank(char c) {
  return kBlanks.contains(c);
}

inline std::string_view trimmed(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// How many bytes at the end of `text` could be the beginning of `mark`.
inline std::size_t overlap(std::string_view text, std::string_view mark) {
  if (mark.empty()) return 0;
  for (std::size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n) {
    if (text.ends_with(mark.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace orrery::text
