// Which of GGUF's words say what the steps of a tokenizer.json do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.hpp"

namespace orrery::text {

// Every way to cut words that has a name cuts this in its own way: cases of letters, contractions,
// numbers, signs, spaces and line ends, scripts, marks.
extern const std::string_view kProbe;

// Byte-level BPE: the name (tokenizer.ggml.pre) whose rules cut words as the spec's do.
std::optional<std::string> find_pre_name(const TokenizerSpec& spec);

// What becomes of spaces in SentencePiece's way.
struct SpaceRule {
  bool prefix = false;     // one comes before the text
  bool collapses = false;  // Unigram: runs become one, none at the ends
  std::string charsmap{};  // Unigram: the compiled character map; empty: none
};
// Nothing for steps that do anything else; the first for BPE, the second for Unigram.
std::optional<SpaceRule> find_space_rule(const TokenizerSpec& spec);
std::optional<SpaceRule> find_unigram_rule(const TokenizerSpec& spec);

// BERT's steps, and which letters stay.
struct WordPieceRule {
  bool lower = true;
  bool strip = true;  // accents
};
std::vector<NormalizerStep> wordpiece_normalizer(const WordPieceRule& rule);
std::vector<PreTokenizerStep> wordpiece_cuts();
// Nothing for other steps, another mark of continuations or another longest word than BERT's.
std::optional<WordPieceRule> find_wordpiece_rule(const TokenizerSpec& spec);

}  // namespace orrery::text
