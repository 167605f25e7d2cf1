#include "text/gguf_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "text/pretokenize.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {
namespace {

using storage::MetaArray;
using Norm = NormalizerStep::Kind;
using Pre = PreTokenizerStep::Kind;

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // U+2581

// Every way to cut words that has a name cuts this in its own way: cases of letters, contractions,
// numbers, signs, spaces and line ends, scripts, marks.
constexpr std::string_view kProbe =
    "Hello World! I'm sure it'S 12345 or 1,234.5 (about 67%) you'LL see camelCaseWords HTTPServer "
    "x=y+z; /path/to  file\t\ttab   \n\n  next line\r\n\r\n\xC3\x89t\xC3\xA9 na\xC3\xAFve "
    "e\xCC\x81"
    "tude \xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xE4\xBD\xA0\xE5\xA5\xBD"
    "\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82 \xE3\x81\x93\xE3\x82\x93\xEF\xBC\x81 "
    "\xEC\x95\x88\xEB\x85\x95 \xF0\x9F\x98\x80\xF0\x9F\x9A\x80 a_b-c@d.e #tag $9.99 ~`^| <<>> "
    "\"quoted\" ''s 7\xE4\xBA\xBA 3rd  \n end.  ";

std::vector<std::string> words_of(const std::vector<PreTokenizerStep>& steps) {
  auto pre = PreTokenizer::create(steps);
  if (!pre) return {};
  std::string text(kProbe);
  std::vector<Span> spans;
  pre->run(text, true, spans);
  std::vector<std::string> words;
  for (const Span& span : spans) words.push_back(text.substr(span.start, span.end - span.start));
  return words;
}

// The name whose rules cut words as the spec's do.
std::optional<std::string> find_pre_name(const TokenizerSpec& spec) {
  const bool nfc = spec.normalizer.size() == 1 && spec.normalizer[0].kind == Norm::nfc;
  if (!spec.normalizer.empty() && !nfc) return std::nullopt;
  const std::vector<std::string> words = words_of(spec.pre_tokenizer);
  const std::string names = known_pre_tokenizers() + " ";
  for (std::size_t at = 0; at < names.size(); at = names.find(' ', at) + 1) {
    const std::string name = names.substr(at, names.find(' ', at) - at);
    const auto known = named_pre_tokenizer(name);
    if (!known || known->is_spm_style || known->nfc != nfc) continue;
    if (known->ignore_merges == spec.ignore_merges && words_of(known->steps) == words) return name;
  }
  return std::nullopt;
}

// What becomes of spaces in SentencePiece's way; nothing for any other.
struct SpaceRule {
  bool prefix = false;  // a space comes before the text
};
std::optional<SpaceRule> find_space_rule(const TokenizerSpec& spec) {
  SpaceRule rule;
  bool escapes = false;
  for (const NormalizerStep& step : spec.normalizer) {
    if (step.kind == Norm::prepend && (step.a == kEscapedSpace || step.a == " ")) {
      rule.prefix = true;
    } else if (step.kind == Norm::replace && step.a == " " && step.b == kEscapedSpace) {
      escapes = true;
    } else {
      return std::nullopt;
    }
  }
  for (const PreTokenizerStep& step : spec.pre_tokenizer) {
    // Gemma cuts at spaces that its normalizer has replaced: no cut at all.
    if (step.kind == Pre::literal && step.pattern == " " && escapes) continue;
    if (step.kind != Pre::metaspace) return std::nullopt;
    escapes = true;
    rule.prefix |= step.prepend != PreTokenizerStep::Prepend::never;
  }
  return escapes ? std::optional(rule) : std::nullopt;
}

// SentencePiece joins the pair whose token has the best score: the rank of the merge that makes it.
std::vector<float> scores_of(const TokenizerSpec& spec) {
  constexpr float kNever = -1e6F;
  std::unordered_map<std::string, std::size_t> ranks;
  for (std::size_t i = 0; i < spec.merges.size(); ++i) {
    ranks.try_emplace(std::string(spec.merges[i].left) + std::string(spec.merges[i].right), i);
  }
  std::vector<float> scores;
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto rank = ranks.find(std::string(spec.tokens[i]));
    const bool joined = rank != ranks.end();
    const bool plain = spec.types[i] == TokenType::normal;
    scores.push_back(joined ? -static_cast<float>(rank->second) : plain ? kNever : 0.0F);
  }
  return scores;
}

class KeyWriter {
 public:
  KeyWriter(const TokenizerSpec& spec, std::uint64_t n_rows) : spec_(spec), n_rows_(n_rows) {}

  Result<GgufKeys> write() {
    if (spec_.model == ModelKind::bpe && spec_.byte_level) {
      ORRERY_TRY_VOID(add_byte_level());
    } else if (spec_.model == ModelKind::bpe && spec_.byte_fallback) {
      ORRERY_TRY_VOID(add_sentence_piece());
    } else {
      return fail("E_TOKENIZER",
                  "this kind of tokenizer cannot be written to GGUF yet; byte-level BPE and "
                  "SentencePiece's BPE can");
    }
    add_tokens();
    ORRERY_TRY_VOID(add_special());
    return std::move(keys_);
  }

 private:
  void add(std::string_view key, storage::MetaValue value) {
    keys_.metadata.insert(fmt::format("tokenizer.ggml.{}", key), std::move(value));
  }
  std::string_view keep(std::string text) {
    const auto kept = std::make_shared<std::string>(std::move(text));
    keys_.owners.push_back(kept);
    return *kept;
  }

  Status add_byte_level() {
    const auto name = find_pre_name(spec_);
    if (!name) {
      return fail("E_TOKENIZER",
                  "tokenizer.json cuts or normalises words in a way that has no name in GGUF "
                  "(tokenizer.ggml.pre)");
    }
    add("model", std::string_view("gpt2"));
    add("pre", keep(*name));
    std::size_t size = 0;
    for (const Merge& merge : spec_.merges) size += merge.left.size() + merge.right.size() + 1;
    const auto block = std::make_shared<std::string>();
    block->reserve(size);  // never grows: views stay valid
    MetaArray merges;
    for (const Merge& merge : spec_.merges) {
      const std::size_t start = block->size();
      block->append(merge.left).append(" ").append(merge.right);
      merges.strings.push_back(std::string_view(*block).substr(start));
    }
    keys_.owners.push_back(block);
    add("merges", std::move(merges));
    return {};
  }

  Status add_sentence_piece() {
    const auto rule = find_space_rule(spec_);
    if (!rule) {
      return fail(
          "E_TOKENIZER",
          "tokenizer.json treats spaces in a way that GGUF's SentencePiece keys cannot say");
    }
    add("model", std::string_view("llama"));
    add("pre", std::string_view("default"));
    add("add_space_prefix", rule->prefix);
    MetaArray scores{.kind = MetaArray::Kind::floats};
    scores.floats = scores_of(spec_);
    scores.floats.resize(std::max<std::size_t>(n_rows_, scores.floats.size()), 0.0F);
    add("scores", std::move(scores));
    return {};
  }

  void add_tokens() {
    MetaArray tokens, types{.kind = MetaArray::Kind::integers};
    const std::size_t n = std::max<std::size_t>(n_rows_, spec_.tokens.size());
    for (std::size_t i = 0; i < n; ++i) {
      const bool known = i < spec_.tokens.size() && !spec_.tokens[i].empty();
      tokens.strings.push_back(known ? spec_.tokens[i] : keep(fmt::format("[PAD{}]", i)));
      const TokenType type = !known ? TokenType::unused
                             : static_cast<TokenId>(i) == spec_.special.unk && !spec_.byte_level
                                 ? TokenType::unknown
                                 : spec_.types[i];
      types.integers.push_back(static_cast<std::int64_t>(type));
    }
    add("tokens", std::move(tokens));
    add("token_type", std::move(types));
  }

  Status add_special() {
    const SpecialTokens& special = spec_.special;
    const auto add_id = [&](std::string_view key, TokenId id) {
      if (id != kNoToken) add(key, static_cast<std::uint64_t>(id));
    };
    add_id("bos_token_id", special.bos);
    add_id("eos_token_id", special.eos);
    add_id("unknown_token_id", special.unk);
    add_id("padding_token_id", special.pad);
    for (const TokenId id : special.end_of_generation) {
      if (id == special.eos) continue;
      add_id("eot_token_id", id);
      break;
    }
    const auto is_none_or = [](const std::vector<TokenId>& ids, TokenId id) {
      return ids.empty() || (ids.size() == 1 && ids[0] == id);
    };
    if (!is_none_or(spec_.prefix, special.bos) || !is_none_or(spec_.suffix, special.eos)) {
      return fail("E_TOKENIZER",
                  "tokenizer.json puts other tokens around a text than BOS and EOS, which GGUF "
                  "cannot say");
    }
    add("add_bos_token", !spec_.prefix.empty());
    add("add_eos_token", !spec_.suffix.empty());
    return {};
  }

  const TokenizerSpec& spec_;
  std::uint64_t n_rows_;
  GgufKeys keys_;
};

}  // namespace

Result<GgufKeys> tokenizer_keys(std::string_view tokenizer_json,
                                std::string_view tokenizer_config_json,
                                std::string_view generation_config_json, std::uint64_t n_rows) {
  ORRERY_TRY(TokenizerSpec spec,
             spec_from_json(tokenizer_json, tokenizer_config_json, generation_config_json));
  ORRERY_TRY(GgufKeys keys, KeyWriter(spec, n_rows).write());
  keys.owners.push_back(spec.owner);
  ORRERY_TRY(const auto original, build_tokenizer(std::move(spec)));
  ORRERY_TRY(TokenizerSpec written, spec_from_gguf(keys.metadata));
  ORRERY_TRY(const auto copy, build_tokenizer(std::move(written)));
  const EncodeOptions options{.add_special = true};
  if (original->encode(kProbe, options) != copy->encode(kProbe, options)) {
    return fail("E_TOKENIZER",
                "tokenizer.json cannot be written to GGUF: read from there it would cut texts into "
                "other tokens");
  }
  return keys;
}

}  // namespace orrery::text
