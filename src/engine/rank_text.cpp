#include "engine/rank_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace orrery::engine {
namespace {

using Ids = std::vector<text::TokenId>;

constexpr std::string_view kQuery = "{query}", kDocument = "{document}";

// In one pass, so that a query that reads "{document}" is no place for it. Only the template's own
// special tokens are any.
Ids fill(const text::Tokenizer& tokenizer, std::string_view source, std::string_view query,
         std::string_view document) {
  std::string text;
  std::vector<text::ByteRange> literal;
  for (;;) {
    const std::size_t next = std::min(source.find(kQuery), source.find(kDocument));
    text += source.substr(0, next);
    if (next == std::string_view::npos) break;
    const bool is_query = source.substr(next).starts_with(kQuery);
    const std::size_t begin = text.size();
    text += is_query ? query : document;
    literal.push_back({begin, text.size()});
    source.remove_prefix(next + (is_query ? kQuery : kDocument).size());
  }
  return tokenizer.encode(text, {.parse_special = true, .literal = literal});
}

std::unexpected<Error> too_long(std::size_t n, std::size_t most) {
  return fail("E_CONTEXT", fmt::format("query and document have {} tokens, the model reads {} at "
                                       "most; shorten them or let the document be cut",
                                       n, most));
}

// The longest beginning of the document that fits, in whole characters.
Result<PairTokens> filled_pair(const text::Tokenizer& tokenizer, std::string_view source,
                               std::string_view query, std::string_view document, std::size_t most,
                               LongText long_text) {
  PairTokens pair{fill(tokenizer, source, query, document)};
  const std::size_t whole = pair.ids.size();
  if (whole <= most) return pair;
  Ids shorter = fill(tokenizer, source, query, "");
  if (long_text == LongText::error || shorter.size() > most) return too_long(whole, most);
  std::vector<std::size_t> ends;  // of the document's characters
  for (std::size_t i = 1; i < document.size(); ++i) {
    if ((static_cast<unsigned char>(document[i]) & 0xC0U) != 0x80U) ends.push_back(i);
  }
  const auto too_many = std::ranges::partition_point(ends, [&](std::size_t end) {
    return fill(tokenizer, source, query, document.substr(0, end)).size() <= most;
  });
  if (too_many != ends.begin()) {
    shorter = fill(tokenizer, source, query, document.substr(0, *std::prev(too_many)));
  }
  const std::size_t dropped = whole - shorter.size();
  return PairTokens{std::move(shorter), 0, dropped};
}

}  // namespace

Result<PairTokens> pair_tokens(const Model& model, std::string_view query,
                               std::string_view document, LongText long_text) {
  const text::Tokenizer& tokenizer = model.tokenizer();
  const std::size_t most = model.embed_context();
  constexpr std::string_view kKey = "tokenizer.chat_template.rerank";
  ORRERY_TRY(const std::string_view source, model.checkpoint().metadata().string_or(kKey, ""));
  if (!source.empty()) {
    if (!source.contains(kQuery) || !source.contains(kDocument)) {
      return fail("E_TEMPLATE", fmt::format("{} lacks {} or {}", kKey, kQuery, kDocument));
    }
    return filled_pair(tokenizer, source, query, document, most, long_text);
  }
  const text::Tokenizer::Pair around = tokenizer.pair();
  PairTokens pair;
  const auto add = [&](const auto& ids) {
    pair.ids.insert(pair.ids.end(), ids.begin(), ids.end());
  };
  add(around.before);
  add(tokenizer.encode(query, {}));
  add(around.between);
  pair.second = pair.ids.size();
  add(tokenizer.encode(document, {}));
  const std::size_t whole = pair.ids.size() + around.after.size();
  if (whole > most) {
    const std::size_t least = pair.second + around.after.size();
    if (long_text == LongText::error || least > most) return too_long(whole, most);
    pair.dropped = whole - most;
    pair.ids.resize(pair.ids.size() - pair.dropped);
  }
  add(around.after);
  return pair;
}

}  // namespace orrery::engine
