#include "text/hf_steps.hpp"

#include <cstdint>
#include <optional>
#include <utility>

#include "text/scan.hpp"

namespace orrery::text {
namespace {

using Json = nlohmann::json;
using Norm = NormalizerStep::Kind;
using Pre = PreTokenizerStep::Kind;

constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581
constexpr int kMaxNesting = 8;                           // of sequences in sequences

std::string shown(std::string_view name) {
  return std::string(name.substr(0, 64));
}

struct Pattern {
  std::string text;
  bool is_regex = false;
};

Result<Pattern> read_pattern(const Json& json) {
  if (json.is_string()) return Pattern{json.get<std::string>(), false};
  if (hf_member(json, "String").is_string()) return Pattern{hf_text(json, "String", ""), false};
  if (hf_member(json, "Regex").is_string()) return Pattern{hf_text(json, "Regex", ""), true};
  return fail("E_PRETOKENIZER", "tokenizer.json: a pattern is neither String nor Regex");
}

Result<std::string> decode_base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    std::uint32_t value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<std::uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<std::uint32_t>(c - 'a' + 26);
    } else if (c >= '0' && c <= '9') {
      value = static_cast<std::uint32_t>(c - '0' + 52);
    } else if (c == '+' || c == '/') {
      value = c == '+' ? 62 : 63;
    } else {
      return fail("E_TOKENIZER", "tokenizer.json: precompiled_charsmap is not base64");
    }
    bits = (bits << 6U) | value;
    n_bits += 6;
    if (n_bits >= 8) {
      n_bits -= 8;
      out.push_back(static_cast<char>((bits >> n_bits) & 0xFFU));
    }
  }
  return out;
}

void add_bert_normalizer(const Json& json, std::vector<NormalizerStep>& steps) {
  const bool lower = hf_flag(json, "lowercase", true);
  if (hf_flag(json, "clean_text", true)) steps.push_back({.kind = Norm::bert_clean});
  if (hf_flag(json, "handle_chinese_chars", true)) steps.push_back({.kind = Norm::bert_cjk});
  if (hf_flag(json, "strip_accents", lower)) {
    steps.push_back({.kind = Norm::nfd});
    steps.push_back({.kind = Norm::strip_accents});
  }
  if (lower) steps.push_back({.kind = Norm::lower_case});
}

std::optional<Norm> plain_normalizer(std::string_view type) {
  if (type == "NFC") return Norm::nfc;
  if (type == "NFD") return Norm::nfd;
  if (type == "NFKC") return Norm::nfkc;
  if (type == "NFKD") return Norm::nfkd;
  if (type == "Lowercase") return Norm::lower_case;
  if (type == "StripAccents") return Norm::strip_marks;
  if (type == "Nmt") return Norm::nmt;
  return std::nullopt;
}

Status add_normalizer(const Json& json, int nesting, std::vector<NormalizerStep>& steps) {
  if (json.is_null()) return {};
  const std::string type = hf_text(json, "type", "");
  if (const auto kind = plain_normalizer(type)) {
    steps.push_back({.kind = *kind});
  } else if (type == "Sequence" && nesting < kMaxNesting) {
    for (const Json& part : hf_member(json, "normalizers")) {
      ORRERY_TRY_VOID(add_normalizer(part, nesting + 1, steps));
    }
  } else if (type == "Strip") {
    steps.push_back({.kind = Norm::strip,
                     .left = hf_flag(json, "strip_left", true),
                     .right = hf_flag(json, "strip_right", true)});
  } else if (type == "Replace") {
    ORRERY_TRY(Pattern pattern, read_pattern(hf_member(json, "pattern")));
    steps.push_back({.kind = pattern.is_regex ? Norm::replace_regex : Norm::replace,
                     .a = std::move(pattern.text),
                     .b = hf_text(json, "content", "")});
  } else if (type == "Prepend") {
    steps.push_back({.kind = Norm::prepend, .a = hf_text(json, "prepend", "")});
  } else if (type == "Precompiled") {
    ORRERY_TRY(std::string map, decode_base64(hf_text(json, "precompiled_charsmap", "")));
    if (!map.empty()) steps.push_back({.kind = Norm::charsmap, .a = std::move(map)});
  } else if (type == "BertNormalizer") {
    add_bert_normalizer(json, steps);
  } else {
    return fail("E_TOKENIZER",
                "tokenizer.json: the normalizer \"" + shown(type) + "\" is not supported");
  }
  return {};
}

Result<SplitBehavior> read_behavior(const Json& json) {
  const std::string name = hf_text(json, "behavior", "Isolated");
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  return fail("E_PRETOKENIZER",
              "tokenizer.json: the split behavior \"" + shown(name) + "\" is unknown");
}

void add_byte_level(const Json& json, TokenizerSpec& spec) {
  spec.byte_level = true;
  if (hf_flag(json, "add_prefix_space", true)) {
    spec.pre_tokenizer.push_back({.kind = Pre::byte_level_space});
  }
  if (hf_flag(json, "use_regex", true)) {
    spec.pre_tokenizer.push_back({.pattern = std::string(kGpt2Pattern)});
  }
}

// Old files say add_prefix_space, newer ones prepend_scheme.
Result<PreTokenizerStep::Prepend> read_prepend(const Json& json) {
  using Prepend = PreTokenizerStep::Prepend;
  const bool adds = hf_flag(json, "add_prefix_space", true);
  const std::string scheme = hf_text(json, "prepend_scheme", adds ? "always" : "never");
  if (scheme == "always") return Prepend::always;
  if (scheme == "first") return Prepend::first;
  if (scheme == "never") return Prepend::never;
  return fail("E_PRETOKENIZER",
              "tokenizer.json: the prepend_scheme \"" + shown(scheme) + "\" is unknown");
}

Status add_metaspace(const Json& json, TokenizerSpec& spec) {
  if (hf_text(json, "replacement", kMetaspace) != kMetaspace) {
    return fail("E_PRETOKENIZER", "tokenizer.json: Metaspace with another character than U+2581");
  }
  ORRERY_TRY(const auto prepend, read_prepend(json));
  spec.escaped_spaces = true;
  spec.pre_tokenizer.push_back(
      {.kind = Pre::metaspace, .prepend = prepend, .split = hf_flag(json, "split", true)});
  return {};
}

Status add_split(const Json& json, TokenizerSpec& spec) {
  ORRERY_TRY(Pattern pattern, read_pattern(hf_member(json, "pattern")));
  ORRERY_TRY(const SplitBehavior behavior, read_behavior(json));
  spec.pre_tokenizer.push_back({.kind = pattern.is_regex ? Pre::regex : Pre::literal,
                                .pattern = std::move(pattern.text),
                                .behavior = behavior,
                                .invert = hf_flag(json, "invert", false)});
  return {};
}

Status add_pre_tokenizer(const Json& json, int nesting, TokenizerSpec& spec) {
  if (json.is_null()) return {};
  auto& steps = spec.pre_tokenizer;
  const std::string type = hf_text(json, "type", "");
  if (type == "Sequence" && nesting < kMaxNesting) {
    for (const Json& part : hf_member(json, "pretokenizers")) {
      ORRERY_TRY_VOID(add_pre_tokenizer(part, nesting + 1, spec));
    }
  } else if (type == "ByteLevel") {
    add_byte_level(json, spec);
  } else if (type == "Split") {
    return add_split(json, spec);
  } else if (type == "Metaspace") {
    return add_metaspace(json, spec);
  } else if (type == "Digits") {
    const bool alone = hf_flag(json, "individual_digits", false);
    steps.push_back({.kind = Pre::digits,
                     .behavior = alone ? SplitBehavior::isolated : SplitBehavior::contiguous});
  } else if (type == "Punctuation") {
    ORRERY_TRY(const SplitBehavior behavior, read_behavior(json));
    steps.push_back({.kind = Pre::punctuation, .behavior = behavior});
  } else if (type == "Whitespace") {
    steps.push_back(
        {.pattern = R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}]+|[^\s\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}]+)",
         .behavior = SplitBehavior::removed,
         .invert = true});
  } else if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
    steps.push_back({.kind = Pre::white_space, .behavior = SplitBehavior::removed});
    if (type == "BertPreTokenizer") steps.push_back({.kind = Pre::punctuation});
  } else if (type == "CharDelimiterSplit") {
    steps.push_back({.kind = Pre::literal,
                     .pattern = hf_text(json, "delimiter", ""),
                     .behavior = SplitBehavior::removed});
  } else {
    return fail("E_PRETOKENIZER",
                "tokenizer.json: the pre-tokenizer \"" + shown(type) + "\" is not supported");
  }
  return {};
}

Status add_ids(const Json& ids, std::vector<TokenId>& out) {
  if (!ids.is_array()) return fail("E_TOKENIZER", "tokenizer.json: special_tokens without ids");
  for (const Json& id : ids) {
    const bool is_id = id.is_number_unsigned() && id.get<std::uint64_t>() < kMaxVocabulary;
    if (!is_id) return fail("E_TOKENIZER", "tokenizer.json: a special token's id is no id");
    out.push_back(id.get<TokenId>());
  }
  return {};
}

Status add_template(const Json& json, TokenizerSpec& spec) {
  const Json& tokens = hf_member(json, "special_tokens");
  bool is_after = false;
  for (const Json& item : hf_member(json, "single")) {
    const Json& token = hf_member(item, "SpecialToken");
    if (token.is_null()) {
      is_after = true;  // the text itself
      continue;
    }
    const Json& entry = hf_member(tokens, hf_text(token, "id", ""));
    ORRERY_TRY_VOID(add_ids(hf_member(entry, "ids"), is_after ? spec.suffix : spec.prefix));
  }
  // Of a pair what stands between its texts; around them is what is around one.
  int texts = 0;
  std::vector<TokenId> between;
  for (const Json& item : hf_member(json, "pair")) {
    const Json& token = hf_member(item, "SpecialToken");
    if (token.is_null()) {
      ++texts;
    } else if (texts == 1) {
      const Json& entry = hf_member(tokens, hf_text(token, "id", ""));
      ORRERY_TRY_VOID(add_ids(hf_member(entry, "ids"), between));
    }
  }
  if (texts == 2) spec.between = std::move(between);
  return {};
}

Status add_post_processor(const Json& json, int nesting, TokenizerSpec& spec) {
  if (json.is_null()) return {};
  const std::string type = hf_text(json, "type", "");
  if (type == "Sequence" && nesting < kMaxNesting) {
    for (const Json& part : hf_member(json, "processors")) {
      ORRERY_TRY_VOID(add_post_processor(part, nesting + 1, spec));
    }
  } else if (type == "TemplateProcessing") {
    return add_template(json, spec);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    for (const std::string_view key : {"cls", "sep"}) {
      const Json& pair = hf_member(json, key);  // [text, id]
      if (!pair.is_array() || pair.size() != 2) {
        return fail("E_TOKENIZER", "tokenizer.json: " + type + " without " + std::string(key));
      }
      ORRERY_TRY_VOID(add_ids(Json::array({pair[1]}), key == "cls" ? spec.prefix : spec.suffix));
    }
    spec.between = spec.suffix;
    if (type == "RobertaProcessing") {
      spec.between.insert(spec.between.end(), spec.suffix.begin(), spec.suffix.end());
    }
  } else if (type != "ByteLevel") {
    return fail("E_TOKENIZER",
                "tokenizer.json: the post-processor \"" + shown(type) + "\" is not supported");
  }
  return {};
}

void add_decoder(const Json& json, int nesting, TokenizerSpec& spec) {
  const std::string type = hf_text(json, "type", "");
  if (type == "Sequence" && nesting < kMaxNesting) {
    for (const Json& part : hf_member(json, "decoders")) add_decoder(part, nesting + 1, spec);
  } else if (type == "ByteLevel") {
    spec.byte_level = true;
  } else if (type == "Metaspace") {
    spec.escaped_spaces = true;
    const auto prepend = read_prepend(json);
    spec.strip_leading_space = prepend && *prepend != PreTokenizerStep::Prepend::never;
  } else if (type == "Replace") {
    const auto pattern = read_pattern(hf_member(json, "pattern"));
    const bool is_space = hf_text(json, "content", "") == " ";
    if (pattern && pattern->text == kMetaspace && is_space) spec.escaped_spaces = true;
  } else if (type == "Strip") {
    const Json& start = hf_member(json, "start");
    const bool strips = start.is_number_unsigned() && start.get<std::uint64_t>() > 0;
    if (strips && hf_text(json, "content", "") == " ") spec.strip_leading_space = true;
  }
}

}  // namespace

const Json& hf_member(const Json& json, std::string_view key) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(key);
  return found == json.end() ? kNull : *found;
}

std::string hf_text(const Json& json, std::string_view key, std::string_view fallback) {
  const Json& value = hf_member(json, key);
  return value.is_string() ? value.get<std::string>() : std::string(fallback);
}

bool hf_flag(const Json& json, std::string_view key, bool fallback) {
  const Json& value = hf_member(json, key);
  return value.is_boolean() ? value.get<bool>() : fallback;
}

Status read_hf_normalizer(const Json& json, TokenizerSpec& spec) {
  return add_normalizer(json, 0, spec.normalizer);
}

Status read_hf_pre_tokenizer(const Json& json, TokenizerSpec& spec) {
  return add_pre_tokenizer(json, 0, spec);
}

Status read_hf_post_processor(const Json& json, TokenizerSpec& spec) {
  return add_post_processor(json, 0, spec);
}

Status read_hf_decoder(const Json& json, TokenizerSpec& spec) {
  add_decoder(json, 0, spec);
  return {};
}

}  // namespace orrery::text
