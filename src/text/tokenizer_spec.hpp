// What a tokenizer is, in one neutral form: both loaders (GGUF metadata, tokenizer.json) fill it
// and one builder turns it into a Tokenizer. Everything here is data; build_tokenizer checks it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/metadata.hpp"
#include "text/tokenizer.hpp"

namespace orrery::text {

inline constexpr std::size_t kMaxVocabulary = 1U << 20;   // tokens, and merges
inline constexpr std::size_t kMaxTokenBytes = 64U << 10;  // bytes of one token's text

enum class ModelKind : std::uint8_t { bpe, spm, unigram, wordpiece };

// Numbered as in GGUF's tokenizer.ggml.token_type.
enum class TokenType : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

struct Merge {
  std::string_view left, right;
};

// A token that is found in the text before anything else happens to it.
struct AddedToken {
  TokenId id = kNoToken;
  std::string_view content;
  bool special = false;      // matched only with parse_special
  bool lstrip = false;       // swallows white space before it
  bool rstrip = false;       // and after it
  bool single_word = false;  // not inside a word
  bool normalized = false;   // looked for after normalisation
};

struct NormalizerStep {
  enum class Kind : std::uint8_t {
    nfc,
    nfd,
    nfkc,
    nfkd,
    lower_case,
    strip_accents,    // drops Mn
    strip_marks,      // drops M
    strip,            // white space at the ends: `left`, `right`
    replace,          // text `a` by text `b`
    replace_regex,    // pattern `a` by text `b`
    prepend,          // `a` before a text that is not empty
    nmt,              // SentencePiece's cleaning of control characters and odd spaces
    charsmap,         // SentencePiece's compiled character map, bytes in `a`
    collapse_spaces,  // runs of U+0020 become one, none at the ends
    bert_clean,       // drops control characters, white space becomes U+0020
    bert_cjk          // spaces around ideographs
  };
  Kind kind = Kind::nfc;
  std::string a = {};
  std::string b = {};
  bool left = false;
  bool right = false;
  bool operator==(const NormalizerStep&) const = default;
};

// What becomes of the matches of a splitting step.
enum class SplitBehavior : std::uint8_t {
  isolated,
  removed,
  merged_with_previous,
  merged_with_next,
  contiguous
};

struct PreTokenizerStep {
  enum class Kind : std::uint8_t {
    regex,             // `pattern`
    literal,           // the text `pattern`
    digits,            // every number character
    punctuation,       // every punctuation character
    white_space,       // every white space character
    byte_level_space,  // no split: U+0020 before a piece that does not start with it
    metaspace,         // spaces become U+2581; `prepend` one at the start; split before each
    new_line_runs      // runs of LF apart from everything else
  };
  enum class Prepend : std::uint8_t { never, first, always };
  Kind kind = Kind::regex;
  std::string pattern = {};
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;
  Prepend prepend = Prepend::never;
  bool split = true;
  bool operator==(const PreTokenizerStep&) const = default;
};

struct TokenizerSpec {
  ModelKind model = ModelKind::bpe;
  std::vector<std::string_view> tokens;  // [n_vocab], as the vocabulary spells them
  std::vector<TokenType> types;          // [n_vocab]
  std::vector<float> scores;             // [n_vocab], for spm and unigram
  std::vector<Merge> merges;             // in order of rank
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;

  bool byte_level = false;             // tokens are spelled in GPT-2's alphabet of 256 characters
  bool byte_fallback = false;          // unknown characters become <0xXX> tokens
  bool ignore_merges = false;          // a word that is a token is that token
  bool fuse_unknown = false;           // neighbouring unknown tokens become one
  TokenId unknown = kNoToken;          // what text without a token becomes; kNoToken: nothing
  bool newline_words = false;          // a word of LF only is looked up whole
  bool escaped_spaces = false;         // U+2581 in a token is a space
  bool strip_leading_space = false;    // decoding drops the space that encoding put first
  std::string word_prefix;             // WordPiece: spelling of the first piece of a word ...
  std::string continuation_prefix;     // ... and of the others
  std::uint32_t max_word_chars = 100;  // WordPiece: longer words are unknown

  std::vector<TokenId> prefix, suffix;  // what add_special puts around a text
  std::vector<TokenId> between;         // the texts of a pair; empty: suffix
  SpecialTokens special;
  std::shared_ptr<const void> owner;  // keeps the bytes of the views alive
};

// E_TOKENIZER for a vocabulary that is wrong, E_PRETOKENIZER for a pre-tokenizer that is unknown.
Result<TokenizerSpec> spec_from_gguf(const storage::Metadata& metadata);
// The three texts as they lie beside a safetensors file; the last two may be empty.
Result<TokenizerSpec> spec_from_json(std::string_view tokenizer_json,
                                     std::string_view tokenizer_config_json,
                                     std::string_view generation_config_json);

// The scores are finite: build_tokenizer checks it with all else, a loader may before it goes on.
Status check_scores(const TokenizerSpec& spec);

Result<std::shared_ptr<const Tokenizer>> build_tokenizer(TokenizerSpec spec);

}  // namespace orrery::text
