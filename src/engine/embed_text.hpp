// Text -> the tokens that an embedding model reads.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/model.hpp"

namespace orrery::engine {

// What becomes of a text that is longer than the model reads. cut: its end is left out, the
// model's own tokens around it stay.
enum class LongText : std::uint8_t { error, cut };

struct EmbedTokens {
  std::vector<text::TokenId> ids;
  std::size_t dropped = 0;  // by a cut
};

// The text with the model's own special tokens around it. E_CONTEXT.
Result<EmbedTokens> embed_tokens(const Model& model, std::string_view text, LongText long_text);

}  // namespace orrery::engine
