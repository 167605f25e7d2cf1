// A vocabulary with its lookup: what every tokenizer model works on.
#pragma once

#include <array>
#include <string_view>

#include "text/token_map.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {

class Vocabulary {
 public:
  // `spec` must outlive the vocabulary and have passed build_tokenizer's checks.
  explicit Vocabulary(const TokenizerSpec& spec) : spec_(spec), map_(spec.tokens) {}

  const TokenizerSpec& spec() const { return spec_; }
  TokenId find(std::string_view text) const { return map_.find(text); }
  std::size_t longest() const { return map_.longest(); }
  bool has_twins() const { return map_.has_twins(); }
  TokenType type(TokenId id) const { return spec_.types[static_cast<std::size_t>(id)]; }
  // True for tokens that text can become; control, unknown and byte tokens never come from text.
  bool is_textual(TokenId id) const {
    const TokenType t = type(id);
    return t != TokenType::control && t != TokenType::unknown && t != TokenType::byte;
  }
  // The token that `text` is, or kNoToken when there is none or it is not textual.
  TokenId find_textual(std::string_view text) const {
    const TokenId id = find(text);
    return id != kNoToken && is_textual(id) ? id : kNoToken;
  }
  // The ids of <0x00> ... <0xFF>, kNoToken where the vocabulary has none.
  std::array<TokenId, 256> byte_tokens() const;

 private:
  const TokenizerSpec& spec_;
  TokenMap map_;
};

// The byte that "<0xAB>" spells (two capital hexadecimal digits), or -1.
int parse_byte_token(std::string_view text);

}  // namespace orrery::text
