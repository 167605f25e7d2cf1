// Finds added tokens in a text: leftmost first, the longest of those that start together.
#pragma once

#include <bitset>
#include <span>
#include <string_view>
#include <vector>

#include "text/token_map.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {

// Whether [begin, end) shares a byte with one of the ranges, which ascend.
bool touches(std::span<const ByteRange> ranges, std::size_t begin, std::size_t end);

class AddedTokenFinder {
 public:
  // `content` is what is looked for (a normalised form may differ from the token's own).
  void insert(const AddedToken& token, std::string_view content);
  bool empty() const { return trie_.empty(); }

  // Calls `gap(text)` for what lies between tokens (never empty) and `token(id)` for the tokens, in
  // order. Special tokens count only with `parse_special`, and outside of the `literal` ranges.
  template <class Gap, class Token>
  void split(std::string_view text, bool parse_special, std::span<const ByteRange> literal, Gap gap,
             Token token) const {
    std::size_t done = 0;
    Match match;
    for (std::size_t at = 0; next(text, at, done, parse_special, literal, match);
         at = match.resume) {
      if (match.start > done) gap(text.substr(done, match.start - done));
      token(match.id);
      done = match.end;
    }
    if (done < text.size()) gap(text.substr(done));
  }

 private:
  struct Match {
    TokenId id = kNoToken;
    std::size_t start = 0, end = 0;  // with the white space that the token swallows
    std::size_t resume = 0;          // where the search goes on
  };
  // The first usable match from `at`; `done` bounds what it may swallow on the left.
  bool next(std::string_view text, std::size_t at, std::size_t done, bool parse_special,
            std::span<const ByteRange> literal, Match& match) const;

  ByteTrie trie_;  // values are indices into tokens_
  std::vector<AddedToken> tokens_;
  std::bitset<256> first_bytes_;
};

}  // namespace orrery::text
