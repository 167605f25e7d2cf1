// WordPiece (BERT): the longest token that starts the word, then the longest that continues it; a
// word that cannot be covered is unknown as a whole.
#pragma once

#include <string_view>
#include <vector>

#include "text/vocabulary.hpp"

namespace orrery::text {

class WordPieceModel {
 public:
  explicit WordPieceModel(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  void encode(std::string_view word, std::vector<TokenId>& out) const;

 private:
  const Vocabulary& vocabulary_;
};

}  // namespace orrery::text
