// Byte-pair encoding of one word: the pair of neighbours with the lowest rank is merged, leftmost
// first, until no pair has a rank (Sennrich et al. 2016). O(n log n) in the length of the word.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "text/space_cuts.hpp"
#include "text/token_map.hpp"
#include "text/vocabulary.hpp"

namespace orrery::text {

// Replaces neighbours in `symbols` by their merges. `lookup(left, right)` gives rank and result.
void merge_symbols(const PairMap& pairs, std::vector<TokenId>& symbols);

class BpeModel {
 public:
  explicit BpeModel(const Vocabulary& vocabulary);  // which must outlive the model

  // Appends the ids of `word`.
  void encode(std::string_view word, std::vector<TokenId>& out) const;
  // How many merges never apply: a part or the result is no token of text, or the pair came before.
  std::size_t ignored_merges() const;

 private:
  void build_pairs() const;
  TokenId result_of(const Merge& merge, TokenId guess) const;
  void encode_part(std::string_view part, std::vector<TokenId>& out) const;
  bool encode_whole(std::string_view word, std::vector<TokenId>& out) const;
  void bytes_to_symbols(std::string_view word, std::vector<TokenId>& symbols) const;
  void characters_to_symbols(std::string_view word, std::vector<TokenId>& symbols) const;

  const Vocabulary& vocabulary_;
  const TokenizerSpec& spec_;
  SpaceCuts cuts_;  // for words of characters
  std::array<TokenId, 256> byte_ids_{};
  // Resolving the merges costs more than loading the rest: the first text that is encoded pays.
  mutable std::once_flag pairs_once_;
  mutable PairMap pairs_;
  mutable std::size_t ignored_merges_ = 0;
};

}  // namespace orrery::text
