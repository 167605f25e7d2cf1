// tokenizer.json with the two small files beside it as a TokenizerSpec.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "storage/config_json.hpp"
#include "text/hf_document.hpp"
#include "text/hf_steps.hpp"
#include "text/tokenizer_spec.hpp"
#include "text/vocabulary.hpp"

namespace orrery::text {
namespace {

using Json = nlohmann::json;

// Texts that must live as long as the spec but stand in the small tree.
struct Owner {
  std::shared_ptr<const void> texts;
  Json tree;
};

Status place_tokens(const HfDocument& document, TokenizerSpec& spec) {
  std::int64_t last = -1;
  for (const auto& entry : document.vocabulary) last = std::max(last, entry.id);
  spec.tokens.resize(static_cast<std::size_t>(last + 1));
  spec.types.assign(spec.tokens.size(), TokenType::unused);
  if (document.has_scores) spec.scores.assign(spec.tokens.size(), 0.0F);
  for (const auto& entry : document.vocabulary) {
    const auto i = static_cast<std::size_t>(entry.id);
    if (spec.types[i] != TokenType::unused) {
      return fail("E_TOKENIZER",
                  "tokenizer.json: two tokens have the id " + std::to_string(entry.id));
    }
    spec.tokens[i] = entry.token;
    const bool is_byte = spec.byte_fallback && parse_byte_token(entry.token) >= 0;
    spec.types[i] = is_byte ? TokenType::byte : TokenType::normal;
    if (document.has_scores) spec.scores[i] = static_cast<float>(entry.score);
  }
  return {};
}

Result<ModelKind> read_kind(const HfDocument& document, const Json& model) {
  const std::string type = hf_text(model, "type", "");
  if (type == "BPE") return ModelKind::bpe;
  if (type == "Unigram") return ModelKind::unigram;
  if (type == "WordPiece") return ModelKind::wordpiece;
  if (!type.empty()) {
    return fail("E_TOKENIZER", "tokenizer.json: the model \"" + type.substr(0, 64) +
                                   "\" is unknown; supported are BPE, Unigram and WordPiece");
  }
  // Old files leave the type out; the lists tell.
  if (document.has_scores) return ModelKind::unigram;
  return document.merges.empty() ? ModelKind::wordpiece : ModelKind::bpe;
}

TokenId find_text(const TokenizerSpec& spec, std::string_view text) {
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    if (!text.empty() && spec.tokens[i] == text) return static_cast<TokenId>(i);
  }
  return kNoToken;
}

Status read_model(HfDocument& document, TokenizerSpec& spec) {
  const Json& model = hf_member(document.rest, "model");
  ORRERY_TRY(spec.model, read_kind(document, model));
  if ((spec.model == ModelKind::unigram) != document.has_scores) {
    return fail("E_TOKENIZER", "tokenizer.json: model.vocab does not have the form of its model");
  }
  spec.byte_fallback = hf_flag(model, "byte_fallback", false);
  spec.ignore_merges = hf_flag(model, "ignore_merges", false);
  spec.fuse_unknown = spec.model == ModelKind::unigram || hf_flag(model, "fuse_unk", false);
  if (!hf_text(model, "end_of_word_suffix", "").empty()) {
    return fail("E_TOKENIZER", "tokenizer.json: end_of_word_suffix is not supported");
  }
  const bool is_wordpiece = spec.model == ModelKind::wordpiece;
  spec.continuation_prefix = hf_text(model, "continuing_subword_prefix", is_wordpiece ? "##" : "");
  if (!is_wordpiece && !spec.continuation_prefix.empty()) {
    return fail("E_TOKENIZER", "tokenizer.json: continuing_subword_prefix needs WordPiece");
  }
  const Json& max_chars = hf_member(model, "max_input_chars_per_word");
  if (max_chars.is_number_unsigned()) {
    spec.max_word_chars =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(max_chars.get<std::uint64_t>(), 65536));
  }
  ORRERY_TRY_VOID(place_tokens(document, spec));
  spec.merges = std::move(document.merges);
  const Json& unknown_id = hf_member(model, "unk_id");
  if (spec.model == ModelKind::unigram) {
    if (unknown_id.is_number_unsigned() && unknown_id.get<std::uint64_t>() < spec.tokens.size()) {
      spec.special.unk = unknown_id.get<TokenId>();
    } else if (!unknown_id.is_null()) {
      return fail("E_TOKENIZER", "tokenizer.json: model.unk_id is no id of the vocabulary");
    }
  } else {
    spec.special.unk = find_text(spec, hf_text(model, "unk_token", is_wordpiece ? "[UNK]" : ""));
  }
  spec.unknown = spec.special.unk;
  return {};
}

Status read_added(const Json& tree, TokenizerSpec& spec) {
  const Json& list = hf_member(tree, "added_tokens");
  if (!list.is_null() && !list.is_array()) {
    return fail("E_TOKENIZER", "tokenizer.json: added_tokens is no list");
  }
  for (const Json& entry : list) {
    const Json& id = hf_member(entry, "id");
    const Json& content = hf_member(entry, "content");
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMaxVocabulary ||
        !content.is_string()) {
      return fail("E_TOKENIZER", "tokenizer.json: an added token lacks an id or a content");
    }
    const std::string_view text = content.get_ref<const std::string&>();
    const auto i = static_cast<std::size_t>(id.get<std::uint64_t>());
    if (i >= spec.tokens.size()) {
      spec.tokens.resize(i + 1);
      spec.types.resize(i + 1, TokenType::unused);
      if (!spec.scores.empty()) spec.scores.resize(i + 1, 0.0F);
    }
    const bool is_special = hf_flag(entry, "special", false);
    if (spec.tokens[i].empty()) spec.tokens[i] = text;
    spec.types[i] = is_special ? TokenType::control : TokenType::user_defined;
    spec.added.push_back({.id = static_cast<TokenId>(i),
                          .content = text,
                          .special = is_special,
                          .lstrip = hf_flag(entry, "lstrip", false),
                          .rstrip = hf_flag(entry, "rstrip", false),
                          .single_word = hf_flag(entry, "single_word", false),
                          .normalized = hf_flag(entry, "normalized", !is_special)});
  }
  return {};
}

// A token that a config names by its text, or by an object with "content".
TokenId named_token(const Json& config, std::string_view key, const TokenizerSpec& spec) {
  const Json& value = hf_member(config, key);
  if (value.is_string()) return find_text(spec, value.get_ref<const std::string&>());
  return find_text(spec, hf_text(value, "content", ""));
}

Result<Json> parse_config(std::string_view text, std::string_view name) {
  if (text.empty()) return Json::object();
  std::optional<Json> json = storage::parse_config_json(text);
  if (!json) {
    return fail("E_TOKENIZER", std::string(name) + " is no JSON object of a sensible size");
  }
  return std::move(*json);
}

// add_bos_token and add_eos_token; the classes that build their post-processor from them also obey
// a "false" against tokenizer.json.
void apply_around(const Json& config, TokenizerSpec& spec) {
  const std::string name = hf_text(config, "tokenizer_class", "");
  const bool rebuilds = name.starts_with("Llama") || name.starts_with("Gemma") ||
                        name.starts_with("CodeLlama") || name.starts_with("Cohere");
  struct Side {
    std::string_view key;
    TokenId id;
    std::vector<TokenId>* ids;
  };
  for (const Side& side : {Side{"add_bos_token", spec.special.bos, &spec.prefix},
                           Side{"add_eos_token", spec.special.eos, &spec.suffix}}) {
    const Json& flag = hf_member(config, side.key);
    if (!flag.is_boolean() || side.id == kNoToken) continue;
    const bool is_there = std::ranges::find(*side.ids, side.id) != side.ids->end();
    if (flag.get<bool>() && !is_there) side.ids->push_back(side.id);
    if (!flag.get<bool>() && is_there && rebuilds) std::erase(*side.ids, side.id);
  }
}

Status read_configs(std::string_view tokenizer_config, std::string_view generation_config,
                    TokenizerSpec& spec) {
  ORRERY_TRY(const Json config, parse_config(tokenizer_config, "tokenizer_config.json"));
  ORRERY_TRY(const Json generation, parse_config(generation_config, "generation_config.json"));
  SpecialTokens& special = spec.special;
  special.bos = named_token(config, "bos_token", spec);
  special.eos = named_token(config, "eos_token", spec);
  special.pad = named_token(config, "pad_token", spec);
  if (special.unk == kNoToken) special.unk = named_token(config, "unk_token", spec);
  const auto add_end = [&](const Json& id) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= spec.tokens.size()) return;
    special.end_of_generation.push_back(id.get<TokenId>());
  };
  const Json& ends = hf_member(generation, "eos_token_id");
  if (ends.is_array()) {
    for (const Json& id : ends) add_end(id);
  } else {
    add_end(ends);
  }
  if (special.eos == kNoToken && !special.end_of_generation.empty()) {
    special.eos = special.end_of_generation.front();
  }
  const Json& begin = hf_member(generation, "bos_token_id");
  if (special.bos == kNoToken && begin.is_number_unsigned() &&
      begin.get<std::uint64_t>() < spec.tokens.size()) {
    special.bos = begin.get<TokenId>();
  }
  apply_around(config, spec);
  return {};
}

}  // namespace

Result<TokenizerSpec> spec_from_json(std::string_view tokenizer_json,
                                     std::string_view tokenizer_config_json,
                                     std::string_view generation_config_json) {
  ORRERY_TRY(HfDocument document, parse_hf_document(tokenizer_json));
  TokenizerSpec spec;
  ORRERY_TRY_VOID(read_model(document, spec));
  const auto owner = std::make_shared<Owner>(Owner{document.owner, std::move(document.rest)});
  const Json& tree = owner->tree;
  spec.owner = owner;
  ORRERY_TRY_VOID(read_added(tree, spec));
  ORRERY_TRY_VOID(read_hf_normalizer(hf_member(tree, "normalizer"), spec));
  ORRERY_TRY_VOID(read_hf_pre_tokenizer(hf_member(tree, "pre_tokenizer"), spec));
  ORRERY_TRY_VOID(read_hf_post_processor(hf_member(tree, "post_processor"), spec));
  ORRERY_TRY_VOID(read_hf_decoder(hf_member(tree, "decoder"), spec));
  ORRERY_TRY_VOID(read_configs(tokenizer_config_json, generation_config_json, spec));
  return spec;
}

}  // namespace orrery::text
