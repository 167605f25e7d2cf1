// Unigram language model (Kudo 2018): the segmentation with the highest sum of scores, by Viterbi
// over the positions of the text. A character that no token starts costs the lowest score less 10.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "text/vocabulary.hpp"

namespace orrery::text {

class UnigramModel {
 public:
  explicit UnigramModel(const Vocabulary& vocabulary);  // which must outlive the model
  void encode(std::string_view word, std::vector<TokenId>& out) const;

 private:
  // The best way to reach a position.
  struct Node {
    double score = 0;
    std::size_t from = 0;
    TokenId id = kNoToken;  // kNoToken: an unknown character
    bool is_reached = false;
  };
  void reach(Node& node, double score, std::size_t from, TokenId id) const;
  void emit_unknown(std::string_view text, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary_;
  ByteTrie trie_;
  std::array<TokenId, 256> byte_ids_;
  double unknown_score_ = 0;
};

}  // namespace orrery::text
