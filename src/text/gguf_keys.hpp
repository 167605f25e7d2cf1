// tokenizer.json as the tokenizer.ggml.* keys of a GGUF file.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/metadata.hpp"

namespace orrery::text {

struct GgufKeys {
  storage::Metadata metadata;
  std::vector<std::shared_ptr<const void>> owners;  // of the texts
};

// The three texts are those of spec_from_json. For a model whose embedding has `n_rows` rows:
// tokens beyond the vocabulary are unused ones. Byte-level BPE whose way to cut words has a name in
// GGUF, SentencePiece's BPE and Unigram, and BERT's WordPiece. E_TOKENIZER for any other kind, and
// for one that would tokenize otherwise when it is read from the keys (but for spaces at the end of
// a text, which GGUF's Unigram always drops).
Result<GgufKeys> tokenizer_keys(std::string_view tokenizer_json,
                                std::string_view tokenizer_config_json,
                                std::string_view generation_config_json, std::uint64_t n_rows);

}  // namespace orrery::text
