// The steps of tokenizer.json (normalizer, pre_tokenizer, post_processor, decoder) as spec entries.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {

// Each takes the value of its key, null included, and fills its part of the spec. E_TOKENIZER or
// E_PRETOKENIZER names a step that is not supported.
Status read_hf_normalizer(const nlohmann::json& json, TokenizerSpec& spec);
Status read_hf_pre_tokenizer(const nlohmann::json& json, TokenizerSpec& spec);
Status read_hf_post_processor(const nlohmann::json& json, TokenizerSpec& spec);
Status read_hf_decoder(const nlohmann::json& json, TokenizerSpec& spec);

// The value under `key` with a default for one that is absent, null or of another type.
std::string hf_text(const nlohmann::json& json, std::string_view key, std::string_view fallback);
bool hf_flag(const nlohmann::json& json, std::string_view key, bool fallback);
// The member `key`, or a null value.
const nlohmann::json& hf_member(const nlohmann::json& json, std::string_view key);

}  // namespace orrery::text
