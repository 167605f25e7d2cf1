#include "text/added_tokens.hpp"

#include <algorithm>

#include "text/unicode.hpp"

namespace orrery::text {
namespace {

// Start of the character that ends before `position` (> 0).
std::size_t previous_start(std::string_view text, std::size_t position) {
  std::size_t start = position - 1;
  while (start > 0 && position - start < 4 &&
         (static_cast<std::uint8_t>(text[start]) & 0xC0U) == 0x80U) {
    --start;
  }
  return start;
}

bool is_word_before(std::string_view text, std::size_t position) {
  if (position == 0) return false;
  const CodePoint point = decode_utf8(text, previous_start(text, position));
  return point.valid && is_word(point.code);
}

bool is_word_after(std::string_view text, std::size_t position) {
  if (position >= text.size()) return false;
  const CodePoint point = decode_utf8(text, position);
  return point.valid && is_word(point.code);
}

bool is_space_at(std::string_view text, std::size_t position) {
  const CodePoint point = decode_utf8(text, position);
  return point.valid && is_white_space(point.code);
}

}  // namespace

bool touches(std::span<const ByteRange> ranges, std::size_t begin, std::size_t end) {
  const auto first =
      std::upper_bound(ranges.begin(), ranges.end(), begin,
                       [](std::size_t at, const ByteRange& range) { return at < range.end; });
  return first != ranges.end() && first->begin < end;
}

void AddedTokenFinder::insert(const AddedToken& token, std::string_view content) {
  if (content.empty()) return;
  trie_.insert(content, static_cast<TokenId>(tokens_.size()));
  tokens_.push_back(token);
  first_bytes_.set(static_cast<std::uint8_t>(content.front()));
}

bool AddedTokenFinder::next(std::string_view text, std::size_t at, std::size_t done,
                            bool parse_special, std::span<const ByteRange> literal,
                            Match& match) const {
  for (; at < text.size(); ++at) {
    if (!first_bytes_.test(static_cast<std::uint8_t>(text[at]))) continue;
    TokenId longest = kNoToken;
    std::size_t longest_end = at;
    std::uint32_t node = ByteTrie::kRoot;
    for (std::size_t end = at; end < text.size();) {
      node = trie_.child(node, static_cast<std::uint8_t>(text[end++]));
      if (node == ByteTrie::kNone) break;
      const TokenId index = trie_.value(node);
      if (index == kNoToken) continue;
      const bool special = tokens_[static_cast<std::size_t>(index)].special;
      if (special && (!parse_special || touches(literal, at, end))) continue;
      longest = index;
      longest_end = end;
    }
    if (longest == kNoToken) continue;
    const AddedToken& token = tokens_[static_cast<std::size_t>(longest)];
    if (token.single_word && (is_word_before(text, at) || is_word_after(text, longest_end))) {
      at = longest_end - 1;
      continue;
    }
    match = {token.id, at, longest_end, longest_end};
    while (token.lstrip && match.start > done) {
      const std::size_t before = previous_start(text, match.start);
      if (before < done || !is_space_at(text, before)) break;
      match.start = before;
    }
    while (token.rstrip && match.end < text.size() && is_space_at(text, match.end)) {
      match.end += decode_utf8(text, match.end).length;
    }
    match.resume = match.end;
    return true;
  }
  return false;
}

}  // namespace orrery::text
