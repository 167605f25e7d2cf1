// Text <-> token ids, exactly as the model was trained: BPE (byte level and SentencePiece),
// Unigram, WordPiece. Built from GGUF metadata or from tokenizer.json; never depends on the
// architecture.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::text {

using TokenId = std::int32_t;
inline constexpr TokenId kNoToken = -1;

// Bytes [begin, end) of a text.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct EncodeOptions {
  bool add_special = false;    // the model's own BOS/EOS (CLS/SEP) around the text
  bool parse_special = false;  // special tokens written in the text become their ids
  // With parse_special: where they stay text all the same (ascending, not overlapping). A special
  // token that touches one of these ranges is text.
  std::span<const ByteRange> literal = {};
};

struct SpecialTokens {
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId unk = kNoToken;
  TokenId pad = kNoToken;
  std::vector<TokenId> end_of_generation;  // every id that ends a turn: eos, eot, <|im_end|>, ...
};

class Tokenizer {
 public:
  // From GGUF metadata or tokenizer.json of the checkpoint. E_TOKENIZER / E_PRETOKENIZER name what
  // was found and what is supported.
  static Result<std::shared_ptr<const Tokenizer>> load(const storage::Checkpoint& checkpoint);
  virtual ~Tokenizer() = default;

  virtual std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const = 0;
  // The bytes of the ids joined; `keep_special` false leaves special tokens out.
  virtual std::string decode(std::span<const TokenId> ids, bool keep_special) const = 0;
  // The bytes that one token adds when it follows others (a stream is made of these).
  virtual std::string_view piece(TokenId id) const = 0;
  virtual bool is_special(TokenId id) const = 0;  // control tokens: never shown to a user
  virtual std::int32_t vocab_size() const = 0;
  virtual const SpecialTokens& special() const = 0;
  // The id of a token by its exact text in the vocabulary ("<|im_end|>"), or kNoToken.
  virtual TokenId find(std::string_view token) const = 0;
  // The text of a token as the vocabulary spells it.
  virtual std::string_view token_text(TokenId id) const = 0;
  virtual std::string_view model_name() const = 0;  // "bpe", "spm", "unigram", "wordpiece"
  // The texts of a pair, each encoded without add_special, as the model was trained to read them:
  // [CLS] a [SEP] b [SEP].
  struct Pair {
    std::span<const TokenId> before, between, after;
  };
  virtual Pair pair() const { return {}; }
};

// Holds bytes back until they are whole UTF-8, so that a stream never splits a character.
class Utf8Stream {
 public:
  // The longest printable prefix of what is held plus `bytes`; the rest stays held.
  std::string push(std::string_view bytes);
  // What is still held; bytes that never became a character turn into U+FFFD.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace orrery::text
