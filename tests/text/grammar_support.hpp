// A vocabulary for tests of grammars, and what a constraint makes of texts and of random walks.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "text/constraint.hpp"
#include "text/grammar.hpp"
#include "text/tokenizer.hpp"

namespace orrery::text::test {

// All bytes, longer pieces that cross what grammars tell apart, specials, an end.
class PieceTokenizer final : public Tokenizer {
 public:
  PieceTokenizer() : PieceTokenizer(kPieces) {}
  explicit PieceTokenizer(const std::vector<std::string>& pieces) {
    for (int byte = 0; byte < 256; ++byte) pieces_.push_back(std::string(1, char(byte)));
    pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
    first_special_ = static_cast<TokenId>(pieces_.size());
    for (const char* special : {"<s>", "[CALLS]", "</s>", "<|eot|>"}) pieces_.push_back(special);
    special_.eos = first_special_ + 2;
    special_.end_of_generation = {special_.eos, special_.eos + 1};
  }

  std::vector<TokenId> encode(std::string_view text, EncodeOptions) const override {
    std::vector<TokenId> ids;
    while (!text.empty()) {  // the longest piece first
      TokenId best = kNoToken;
      for (TokenId id = 0; id < first_special_; ++id) {
        if (!text.starts_with(piece(id))) continue;
        if (best == kNoToken || piece(id).size() > piece(best).size()) best = id;
      }
      ids.push_back(best);
      text.remove_prefix(piece(best).size());
    }
    return ids;
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string text;
    for (const TokenId id : ids) text += piece(id);
    return text;
  }
  std::string_view piece(TokenId id) const override { return pieces_[std::size_t(id)]; }
  bool is_special(TokenId id) const override { return id >= first_special_; }
  std::int32_t vocab_size() const override { return std::int32_t(pieces_.size()); }
  const SpecialTokens& special() const override { return special_; }
  TokenId find(std::string_view token) const override {
    for (TokenId id = 0; id < vocab_size(); ++id) {
      if (pieces_[std::size_t(id)] == token) return id;
    }
    return kNoToken;
  }
  std::string_view token_text(TokenId id) const override { return piece(id); }
  std::string_view model_name() const override { return "pieces"; }

 private:
  inline static const std::vector<std::string> kPieces = {
      "ab",       "abc",   "aa",    "aaaa",        "aaaaaaaa", "\":",  "\",",    "\": \"",
      "\"}",      "{\"",   "}}",    "},",          " {",       " [",   "]]",     "true",
      "false",    "null",  "name",  "\"a\"",       "00",       "123",  "1.",     ", \"",
      "\xC3\xA9", "\xC3",  "\xA9t", "\xF0\x9F",    "\x98\x80", "tool", "<tool",  "_call>",
      "\n  ",     "\\u00", "\\\"",  "hello world", "2024-",    "a\",", "\":{\"", "e\": "};

  std::vector<std::string> pieces_;
  SpecialTokens special_;
  TokenId first_special_ = 0;
};

inline std::shared_ptr<const Tokenizer> piece_tokenizer() {
  static const auto kTokenizer = std::make_shared<const PieceTokenizer>();
  return kTokenizer;
}

inline bool allows(std::span<const std::uint32_t> mask, TokenId id) {
  return (mask[std::size_t(id) / 32] >> (std::size_t(id) % 32) & 1U) != 0;
}

// Whether the text may be written to its end. The mask and accept() have to agree on every token
// of the vocabulary at every step.
inline bool accepts(const ConstraintSource& source, std::string_view text,
                    const Tokenizer& tokenizer = *piece_tokenizer()) {
  const auto constraint = source.start();
  for (const TokenId id : tokenizer.encode(text, {})) {
    const bool is_allowed = allows(constraint->allowed(), id);
    const Status status = constraint->accept(id);
    EXPECT_EQ(is_allowed, status.has_value()) << "token " << id << " in " << text;
    if (!status) {
      EXPECT_EQ(status.error().kind, "E_GRAMMAR");
      return false;
    }
  }
  const auto& ends = tokenizer.special().end_of_generation;
  const bool may_end = allows(constraint->allowed(), ends[0]);
  EXPECT_EQ(may_end, allows(constraint->allowed(), ends.back()));
  EXPECT_EQ(may_end, constraint->accept(ends[0]).has_value());
  return may_end;
}

// A text of random allowed tokens, ended as soon as may be after `tokens` of them; empty where it
// did not come to an end. Short pieces are preferred towards the end.
inline std::string random_text(const ConstraintSource& source, std::mt19937& random,
                               std::size_t tokens,
                               const Tokenizer& tokenizer = *piece_tokenizer()) {
  const auto constraint = source.start();
  std::string text;
  const TokenId end = tokenizer.special().end_of_generation[0];
  for (std::size_t n = 0; n < tokens + 400; ++n) {
    const auto mask = constraint->allowed();
    const bool may_end = allows(mask, end);
    if (may_end && (n >= tokens || constraint->is_finished() || random() % 8 == 0)) return text;
    std::vector<TokenId> choices;
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      if (id != end && allows(mask, id) && !tokenizer.is_special(id)) choices.push_back(id);
    }
    if (choices.empty()) {
      ADD_FAILURE() << "a dead end after " << text;
      return {};
    }
    // Past its length a text closes what it has opened where it can.
    TokenId next = choices[random() % choices.size()];
    if (n >= tokens) {
      for (const TokenId id : choices) {
        const std::string_view piece = tokenizer.piece(id);
        if (piece == "\"" || piece == "}" || piece == "]") next = id;
      }
    }
    text += tokenizer.piece(next);
    EXPECT_TRUE(constraint->accept(next).has_value());
  }
  return {};
}

}  // namespace orrery::text::test
