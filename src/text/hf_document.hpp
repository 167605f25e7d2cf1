// tokenizer.json as read: the long lists apart, everything else as a small tree.
//
// The format is that of Hugging Face's `tokenizers` library (its documentation of Tokenizer.save).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {

struct HfDocument {
  struct Entry {
    std::string_view token;
    std::int64_t id = 0;  // its place in the list where the file gives no ids
    double score = 0;
  };
  nlohmann::json rest;  // without model.vocab and model.merges
  std::vector<Entry> vocabulary;
  bool has_scores = false;  // model.vocab was a list of [token, score]
  std::vector<Merge> merges;
  std::shared_ptr<const void> owner;  // of the texts
};

// E_TOKENIZER with the byte where the text is no such JSON.
Result<HfDocument> parse_hf_document(std::string_view text);

}  // namespace orrery::text
