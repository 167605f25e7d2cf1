#include "text/wordpiece.hpp"

#include <string>

#include "text/unicode.hpp"

namespace orrery::text {

void WordPieceModel::encode(std::string_view word, std::vector<TokenId>& out) const {
  const TokenizerSpec& spec = vocabulary_.spec();
  std::vector<std::size_t> ends;  // of the word's characters
  for (std::size_t at = 0; at < word.size();) {
    at += decode_utf8(word, at).length;
    ends.push_back(at);
  }
  const std::size_t n_before = out.size();
  bool is_covered = ends.size() <= spec.max_word_chars;
  std::string candidate;
  std::size_t start = 0;
  std::size_t first_end = 0;  // index of the first character end behind `start`
  while (is_covered && start < word.size()) {
    TokenId found = kNoToken;
    std::size_t end_index = ends.size();
    while (found == kNoToken && end_index > first_end) {
      candidate = start == 0 ? spec.word_prefix : spec.continuation_prefix;
      candidate += word.substr(start, ends[end_index - 1] - start);
      // A continuation never spells the start of a word, even if the text holds that mark.
      const bool is_confused =
          start > 0 && !spec.word_prefix.empty() && candidate.starts_with(spec.word_prefix);
      if (candidate.size() <= vocabulary_.longest() && !is_confused) {
        found = vocabulary_.find_textual(candidate);
      }
      if (found == kNoToken) --end_index;
    }
    is_covered = found != kNoToken;
    if (is_covered) {
      out.push_back(found);
      start = ends[end_index - 1];
      first_end = end_index;
    }
  }
  if (is_covered) return;
  out.resize(n_before);
  if (spec.unknown != kNoToken) out.push_back(spec.unknown);
}

}  // namespace orrery::text
