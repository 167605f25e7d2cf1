// Where a SentencePiece text can be cut into short words without changing its tokens.
#pragma once

#include <bitset>
#include <string_view>

#include "text/vocabulary.hpp"

namespace orrery::text {

// A merge over the border between a byte and a following U+2581 makes a token that holds this pair.
// Where no token does, both sides can be merged apart: short words stay in the cache, a whole text
// does not.
class SpaceCuts {
 public:
  explicit SpaceCuts(const Vocabulary& vocabulary);
  // End of the part of `text` that starts at `start`.
  std::size_t next(std::string_view text, std::size_t start) const;

 private:
  bool never_ = false;            // U+2581 is no token: unknown text may be joined over the border
  std::bitset<256> joins_space_;  // last bytes of characters that a token holds before U+2581
};

}  // namespace orrery::text
