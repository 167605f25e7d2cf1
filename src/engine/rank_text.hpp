// A query and a document -> the tokens that a model which ranks reads.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/embed_text.hpp"

namespace orrery::engine {

struct PairTokens {
  std::vector<text::TokenId> ids;
  // Where the document begins, as the token types of BERT know it; 0 where the model's own template
  // holds the two.
  std::size_t second = 0;
  std::size_t dropped = 0;  // of the document's end, by a cut
};

// By the rerank template of the file (GGUF's tokenizer.chat_template.rerank, with {query} and
// {document}), else as the tokenizer's pairs: [CLS] query [SEP] document [SEP]. Special tokens
// written in either text stay text. A pair that is too long is refused, or loses the end of the
// document: E_CONTEXT. E_TEMPLATE for a template without places for both.
Result<PairTokens> pair_tokens(const Model& model, std::string_view query,
                               std::string_view document, LongText long_text);

}  // namespace orrery::engine
