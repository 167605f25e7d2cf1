#include "engine/embed_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::engine {

Result<EmbedTokens> embed_tokens(const Model& model, std::string_view text, LongText long_text) {
  const text::Tokenizer& tokenizer = model.tokenizer();
  EmbedTokens tokens{tokenizer.encode(text, {.add_special = true, .parse_special = false})};
  std::vector<text::TokenId>& ids = tokens.ids;
  const std::size_t most = model.embed_context();
  if (ids.size() <= most) return tokens;
  const std::vector<text::TokenId> body =
      tokenizer.encode(text, {.add_special = false, .parse_special = false});
  const std::size_t around = ids.size() - std::min(body.size(), ids.size());
  if (long_text == LongText::error || around >= most) {
    return fail("E_CONTEXT", fmt::format("the text has {} tokens, the model reads {} at most; "
                                         "shorten it or let it be cut",
                                         ids.size(), most));
  }
  // The end of the body goes, what the model adds behind it moves up.
  const auto begin = std::ranges::search(ids, body).begin() - ids.begin();
  tokens.dropped = ids.size() - most;
  const auto end = begin + static_cast<std::ptrdiff_t>(body.size());
  ids.erase(ids.begin() + end - static_cast<std::ptrdiff_t>(tokens.dropped), ids.begin() + end);
  return tokens;
}

}  // namespace orrery::engine
