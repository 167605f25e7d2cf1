// Filling in the middle: the tokens around what stands before and behind the gap (Bavarian et al.,
// 2022, arXiv 2207.14255), and around the files of a repository.
#pragma once

#include "storage/metadata.hpp"
#include "text/tokenizer.hpp"

namespace orrery::text {

struct InfillTokens {
  TokenId prefix = kNoToken, suffix = kNoToken, middle = kNoToken;
  TokenId repository = kNoToken, file = kNoToken;  // of models that read other files too

  bool is_whole() const { return prefix != kNoToken && suffix != kNoToken && middle != kNoToken; }
};

// By GGUF's keys (tokenizer.ggml.fim_pre_token_id, ...), else by their known spellings.
InfillTokens find_infill_tokens(const storage::Metadata& metadata, const Tokenizer& tokenizer);

}  // namespace orrery::text
