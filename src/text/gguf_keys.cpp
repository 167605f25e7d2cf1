#include "text/gguf_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "text/gguf_steps.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {
namespace {

using storage::MetaArray;

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // U+2581

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

// Encoders' vocabularies, whose files may name [CLS] and [SEP] by what stands around a text alone.
bool is_encoders(const TokenizerSpec& spec) {
  return spec.model == ModelKind::wordpiece || spec.model == ModelKind::unigram;
}

const std::vector<TokenId>& between(const TokenizerSpec& spec) {
  return spec.between.empty() ? spec.suffix : spec.between;
}

class KeyWriter {
 public:
  KeyWriter(const TokenizerSpec& spec, std::uint64_t n_rows)
      : spec_(spec), n_rows_(n_rows), tokens_(spec.tokens) {}

  Result<GgufKeys> write() {
    if (spec_.model == ModelKind::wordpiece) {
      ORRERY_TRY_VOID(add_wordpiece());
    } else if (spec_.model == ModelKind::unigram) {
      ORRERY_TRY_VOID(add_unigram());
    } else if (spec_.byte_level) {
      ORRERY_TRY_VOID(add_byte_level());
    } else if (spec_.byte_fallback) {
      ORRERY_TRY_VOID(add_sentence_piece());
    } else {
      return fail(
          "E_TOKENIZER",
          "this kind of tokenizer cannot be written to GGUF: its BPE neither works on bytes "
          "nor falls back to them");
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
    add_scores(scores_of(spec_));
    return {};
  }

  Status add_unigram() {
    const auto rule = find_unigram_rule(spec_);
    if (!rule || spec_.byte_fallback) {
      return fail("E_TOKENIZER",
                  "tokenizer.json normalises texts or treats spaces in a way that GGUF's Unigram "
                  "keys cannot say");
    }
    add("model", std::string_view("t5"));
    add("pre", std::string_view("default"));
    add("add_space_prefix", rule->prefix);
    add("remove_extra_whitespaces", rule->collapses);
    add_scores(spec_.scores);
    if (rule->charsmap.empty()) return {};
    const std::string_view map = keep(rule->charsmap);
    constexpr std::uint32_t kBytes = 0;  // GGUF's number of u8
    add("precompiled_charsmap", storage::PackedArray{.kind = MetaArray::Kind::integers,
                                                     .type = kBytes,
                                                     .count = map.size(),
                                                     .bytes = std::as_bytes(std::span(map))});
    return {};
  }

  Status add_wordpiece() {
    const auto rule = find_wordpiece_rule(spec_);
    if (!rule) {
      return fail("E_TOKENIZER",
                  "tokenizer.json cleans or cuts texts in another way than BERT's, which GGUF's "
                  "WordPiece keys cannot say");
    }
    add("model", std::string_view("bert"));
    add("pre", std::string_view("default"));
    if (!rule->lower) add("normalizer.lowercase", false);
    if (rule->strip != rule->lower) add("normalizer.strip_accents", rule->strip);
    return mark_words();
  }

  // GGUF marks the beginnings of words, tokenizer.json their continuations (##).
  Status mark_words() {
    constexpr std::string_view kContinues = "##";
    std::unordered_set<std::string_view> known;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      std::string_view& token = tokens_[i];
      if (spec_.types[i] == TokenType::normal) {
        const bool inside = token.starts_with(kContinues) && token.size() > kContinues.size();
        token = inside ? token.substr(kContinues.size())
                       : keep(std::string(kEscapedSpace) + std::string(token));
      }
      if (token.empty() || known.insert(token).second) continue;
      return fail("E_TOKENIZER",
                  fmt::format("two tokens of tokenizer.json would both be \"{}\" in GGUF", token));
    }
    return {};
  }

  void add_scores(std::vector<float> values) {
    MetaArray scores{.kind = MetaArray::Kind::floats};
    scores.floats = std::move(values);
    scores.floats.resize(std::max<std::size_t>(n_rows_, scores.floats.size()), 0.0F);
    add("scores", std::move(scores));
  }

  void add_tokens() {
    MetaArray tokens, types{.kind = MetaArray::Kind::integers};
    const std::size_t n = std::max<std::size_t>(n_rows_, tokens_.size());
    for (std::size_t i = 0; i < n; ++i) {
      const bool known = i < tokens_.size() && !tokens_[i].empty();
      tokens.strings.push_back(known ? tokens_[i] : keep(fmt::format("[PAD{}]", i)));
      const TokenType type = !known ? TokenType::unused
                             : static_cast<TokenId>(i) == spec_.special.unk && !spec_.byte_level
                                 ? TokenType::unknown
                                 : spec_.types[i];
      types.integers.push_back(static_cast<std::int64_t>(type));
    }
    add("tokens", std::move(tokens));
    add("token_type", std::move(types));
  }

  void add_id(std::string_view key, TokenId id) {
    if (id != kNoToken) add(key, static_cast<std::uint64_t>(id));
  }

  Status add_special() {
    SpecialTokens special = spec_.special;
    if (is_encoders(spec_)) {
      if (special.bos == kNoToken && !spec_.prefix.empty()) special.bos = spec_.prefix[0];
      if (special.eos == kNoToken && !spec_.suffix.empty()) special.eos = spec_.suffix[0];
    }
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
    if (is_encoders(spec_)) add_encoders(special);
    return {};
  }

  // What readers of encoders look for; the mask is found by its usual texts.
  void add_encoders(const SpecialTokens& special) {
    add_id("cls_token_id", special.bos);
    add_id("seperator_token_id", special.eos);  // spelled so
    add("add_sep_token", !spec_.suffix.empty());
    for (const AddedToken& token : spec_.added) {
      if (token.content == "[MASK]" || token.content == "<mask>") add_id("mask_token_id", token.id);
    }
  }

  const TokenizerSpec& spec_;
  std::uint64_t n_rows_;
  std::vector<std::string_view> tokens_;  // as GGUF spells them
  GgufKeys keys_;
};

// Unigram's steps see other spaces, too. Those at the end are dropped by SentencePiece, as by
// GGUF's readers; some files of tokenizer.json leave that out, for a token that no text ended with
// in training.
std::string probe_for(const TokenizerSpec& spec) {
  std::string probe(kProbe);
  if (spec.model != ModelKind::unigram) return probe;
  probe += "no\xC2\xA0 break, em\xE2\x80\x83space, zero\xE2\x80\x8Bwidth, wide\xE3\x80\x80space";
  return probe;
}

}  // namespace

Result<GgufKeys> tokenizer_keys(std::string_view tokenizer_json,
                                std::string_view tokenizer_config_json,
                                std::string_view generation_config_json, std::uint64_t n_rows) {
  ORRERY_TRY(TokenizerSpec spec,
             spec_from_json(tokenizer_json, tokenizer_config_json, generation_config_json));
  ORRERY_TRY(GgufKeys keys, KeyWriter(spec, n_rows).write());
  keys.owners.push_back(spec.owner);
  const std::string probe = probe_for(spec);
  const bool pairs = is_encoders(spec);
  const std::vector<TokenId> between_texts = between(spec);
  ORRERY_TRY(const auto original, build_tokenizer(std::move(spec)));
  ORRERY_TRY(TokenizerSpec written, spec_from_gguf(keys.metadata));
  if (pairs && between(written) != between_texts) {
    return fail("E_TOKENIZER",
                "tokenizer.json puts other tokens between two texts than GGUF's readers do");
  }
  ORRERY_TRY(const auto copy, build_tokenizer(std::move(written)));
  const EncodeOptions options{.add_special = true};
  if (original->encode(probe, options) != copy->encode(probe, options)) {
    return fail("E_TOKENIZER",
                "tokenizer.json cannot be written to GGUF: read from there it would cut texts into "
                "other tokens");
  }
  return keys;
}

}  // namespace orrery::text
