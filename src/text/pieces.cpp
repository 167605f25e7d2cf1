#include "text/pieces.hpp"

#include <unordered_map>

#include "text/unicode.hpp"
#include "text/vocabulary.hpp"

namespace orrery::text {
namespace {

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // U+2581

// A token that is not spelled in the byte-level alphabet stands for itself.
void append_byte_level(std::string_view token, std::string& out) {
  const std::size_t before = out.size();
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint point = decode_utf8(token, at);
    const int byte = point.valid ? alphabet_to_byte(point.code) : -1;
    if (byte < 0) {
      out.resize(before);
      out += token;
      return;
    }
    out.push_back(static_cast<char>(byte));
    at += point.length;
  }
}

void append_unescaped(std::string_view token, std::string& out) {
  for (std::size_t at = 0; at < token.size();) {
    if (token.substr(at).starts_with(kEscapedSpace)) {
      out += ' ';
      at += kEscapedSpace.size();
    } else {
      out += token[at++];
    }
  }
}

// A word starts with a space, except before the marks that BERT's decoder draws to the left.
void append_wordpiece(const TokenizerSpec& spec, std::string_view token, bool is_marked,
                      std::string& out) {
  const bool has_word_prefix = !spec.word_prefix.empty() && token.starts_with(spec.word_prefix);
  const bool has_continuation =
      !spec.continuation_prefix.empty() && token.starts_with(spec.continuation_prefix);
  const bool continues = spec.word_prefix.empty() ? has_continuation : !has_word_prefix;
  if (!is_marked && continues) {
    out += token.substr(spec.continuation_prefix.size());
    return;
  }
  const std::string_view word = has_word_prefix ? token.substr(spec.word_prefix.size()) : token;
  const bool hugs = word == "." || word == "?" || word == "!" || word == ",";
  if (!hugs) out += ' ';
  out += word;
}

}  // namespace

Pieces::Pieces(const TokenizerSpec& spec, const Normalizer& normalizer) {
  std::unordered_map<TokenId, std::string> normalized;
  for (const AddedToken& token : spec.added) {
    if (token.normalized && !normalizer.empty() && is_valid_utf8(token.content)) {
      normalized.emplace(token.id, normalizer.run(token.content));
    }
  }
  std::size_t size = 0;
  for (const std::string_view token : spec.tokens) size += token.size() + 1;
  bytes_.reserve(size);
  starts_.reserve(spec.tokens.size() + 1);
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    starts_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    const auto changed = normalized.find(static_cast<TokenId>(i));
    const std::string_view token = changed == normalized.end() ? spec.tokens[i] : changed->second;
    const TokenType type = spec.types[i];
    const bool is_marked =
        type == TokenType::control || type == TokenType::user_defined || type == TokenType::unknown;
    if (type == TokenType::byte) {
      bytes_.push_back(static_cast<char>(parse_byte_token(token)));
    } else if (spec.model == ModelKind::wordpiece) {
      append_wordpiece(spec, token, is_marked, bytes_);
    } else if (spec.escaped_spaces && type != TokenType::control) {
      append_unescaped(token, bytes_);
    } else if (spec.byte_level && !is_marked) {
      append_byte_level(token, bytes_);
    } else {
      bytes_ += token;
    }
  }
  starts_.push_back(static_cast<std::uint32_t>(bytes_.size()));
}

}  // namespace orrery::text
