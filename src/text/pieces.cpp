#include "text/pieces.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "text/unicode.hpp"
#include "text/vocabulary.hpp"

namespace orrery::text {
namespace {

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // U+2581
constexpr std::size_t kChunk = 256;                         // tokens

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

Pieces::Pieces(const TokenizerSpec& spec, const Normalizer& normalizer)
    : spec_(spec), chunks_(std::make_unique<Chunk[]>(ceil_div(spec.tokens.size(), kChunk))) {
  for (const AddedToken& token : spec.added) {
    if (token.normalized && !normalizer.empty() && is_valid_utf8(token.content)) {
      normalized_.emplace(token.id, normalizer.run(token.content));
    }
  }
}

std::string_view Pieces::operator[](TokenId id) const {
  const auto i = static_cast<std::size_t>(id);
  Chunk& chunk = chunks_[i / kChunk];
  std::call_once(chunk.made, [&] { make(i / kChunk); });
  const std::uint32_t start = chunk.starts[i % kChunk];
  return std::string_view(chunk.bytes).substr(start, chunk.starts[i % kChunk + 1] - start);
}

void Pieces::make(std::size_t index) const {
  Chunk& chunk = chunks_[index];
  const std::size_t first = index * kChunk;
  const std::size_t end = std::min(first + kChunk, spec_.tokens.size());
  chunk.starts.reserve(end - first + 1);
  for (std::size_t i = first; i < end; ++i) {
    chunk.starts.push_back(static_cast<std::uint32_t>(chunk.bytes.size()));
    append(i, chunk.bytes);
  }
  chunk.starts.push_back(static_cast<std::uint32_t>(chunk.bytes.size()));
}

void Pieces::append(std::size_t id, std::string& out) const {
  const auto changed = normalized_.find(static_cast<TokenId>(id));
  const std::string_view token = changed == normalized_.end() ? spec_.tokens[id] : changed->second;
  const TokenType type = spec_.types[id];
  const bool is_marked =
      type == TokenType::control || type == TokenType::user_defined || type == TokenType::unknown;
  if (type == TokenType::byte) {
    out.push_back(static_cast<char>(parse_byte_token(token)));
  } else if (spec_.model == ModelKind::wordpiece) {
    append_wordpiece(spec_, token, is_marked, out);
  } else if (spec_.escaped_spaces && type != TokenType::control) {
    append_unescaped(token, out);
  } else if (spec_.byte_level && !is_marked) {
    append_byte_level(token, out);
  } else {
    out += token;
  }
}

}  // namespace orrery::text
