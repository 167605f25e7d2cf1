// SentencePiece BPE as GGUF stores it: no list of merges, the score of the joined token decides
// (the highest first, leftmost among equals). Characters without a token become <0xXX> tokens.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "text/space_cuts.hpp"
#include "text/vocabulary.hpp"

namespace orrery::text {

class SpmModel {
 public:
  explicit SpmModel(const Vocabulary& vocabulary);  // which must outlive the model
  void encode(std::string_view word, std::vector<TokenId>& out) const;

 private:
  void encode_part(std::string_view part, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary_;
  SpaceCuts cuts_;
  std::array<TokenId, 256> byte_ids_;
};

}  // namespace orrery::text
