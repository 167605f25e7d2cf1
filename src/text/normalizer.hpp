// Rewrites a piece of text before it is cut into words: Unicode forms, case, accents, replacements,
// and SentencePiece's compiled character map.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "text/regex.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {

// SentencePiece's precompiled_charsmap: u32 size of a double array, the array (u32 units, little
// endian, Darts' layout), then replacement texts, each ended by a zero byte.
class CharsMap {
 public:
  // E_TOKENIZER when the sizes do not fit together.
  static Result<CharsMap> parse(std::string_view blob);
  // The replacement of the longest prefix of `text` (not empty) that the map knows; `length` is the
  // prefix's bytes.
  std::optional<std::string_view> find(std::string_view text, std::size_t& length) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string texts_;
};

class Normalizer {
 public:
  Normalizer() = default;
  // E_PRETOKENIZER for a pattern, E_TOKENIZER for a character map that is wrong.
  static Result<Normalizer> create(std::vector<NormalizerStep> steps);

  bool empty() const { return steps_.empty(); }
  // `text` must be well-formed UTF-8.
  std::string run(std::string_view text) const;

 private:
  struct Step {
    NormalizerStep spec;
    std::optional<Regex> regex;
    std::optional<CharsMap> charsmap;
  };
  std::vector<Step> steps_;
};

}  // namespace orrery::text
