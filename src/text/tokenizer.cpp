#include "text/tokenizer.hpp"

#include <bitset>
#include <cmath>
#include <memory>
#include <utility>
#include <variant>

#include "text/added_tokens.hpp"
#include "text/bpe.hpp"
#include "text/end_of_generation.hpp"
#include "text/normalizer.hpp"
#include "text/pieces.hpp"
#include "text/pretokenize.hpp"
#include "text/spm.hpp"
#include "text/tokenizer_spec.hpp"
#include "text/unicode.hpp"
#include "text/unigram.hpp"
#include "text/vocabulary.hpp"
#include "text/wordpiece.hpp"

namespace orrery::text {
namespace {

std::string token_label(std::size_t id) {
  return "token " + std::to_string(id);
}

Status check_sizes(const TokenizerSpec& spec) {
  const std::size_t n = spec.tokens.size();
  if (n < 2 || n > kMaxVocabulary) {
    return fail("E_TOKENIZER",
                "the vocabulary has " + std::to_string(n) + " tokens; 2 to 1048576 are supported");
  }
  if (spec.types.size() != n) {
    return fail("E_TOKENIZER", "the vocabulary has " + std::to_string(n) + " tokens but " +
                                   std::to_string(spec.types.size()) + " token types");
  }
  const bool needs_scores = spec.model == ModelKind::spm || spec.model == ModelKind::unigram;
  if (needs_scores && spec.scores.size() != n) {
    return fail("E_TOKENIZER", "the vocabulary has " + std::to_string(n) + " tokens but " +
                                   std::to_string(spec.scores.size()) + " scores");
  }
  if (spec.merges.size() > kMaxVocabulary) {
    return fail("E_TOKENIZER", "the vocabulary has " + std::to_string(spec.merges.size()) +
                                   " merges; at most 1048576 are supported");
  }
  return {};
}

Status check_tokens(const TokenizerSpec& spec) {
  std::bitset<256> seen;
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const std::string_view token = spec.tokens[i];
    if (token.size() > kMaxTokenBytes) {
      return fail("E_TOKENIZER", token_label(i) + " has " + std::to_string(token.size()) +
                                     " bytes; at most 65536 are supported");
    }
    if (spec.types[i] == TokenType::byte) {
      const int byte = parse_byte_token(token);
      if (byte < 0) {
        return fail("E_TOKENIZER",
                    token_label(i) + " is marked as a byte but is not spelled <0x00> to <0xFF>");
      }
      if (seen.test(static_cast<std::size_t>(byte))) {
        return fail("E_TOKENIZER", token_label(i) + " is the second one for its byte");
      }
      seen.set(static_cast<std::size_t>(byte));
    }
  }
  if (seen.any() && !seen.all()) {
    return fail("E_TOKENIZER", "the vocabulary has " + std::to_string(seen.count()) +
                                   " byte tokens; it needs all 256 of them or none");
  }
  return check_scores(spec);
}

Status check_ids(const TokenizerSpec& spec) {
  const auto is_bad = [&](TokenId id) {
    return id != kNoToken && (id < 0 || static_cast<std::size_t>(id) >= spec.tokens.size());
  };
  const auto refuse = [&](std::string_view what, TokenId id) {
    return fail("E_TOKENIZER", std::string(what) + " is token " + std::to_string(id) +
                                   ", but the vocabulary ends at " +
                                   std::to_string(spec.tokens.size() - 1));
  };
  const SpecialTokens& special = spec.special;
  if (is_bad(special.bos)) return refuse("bos", special.bos);
  if (is_bad(special.eos)) return refuse("eos", special.eos);
  if (is_bad(special.unk)) return refuse("unk", special.unk);
  if (is_bad(special.pad)) return refuse("pad", special.pad);
  if (is_bad(spec.unknown)) return refuse("the token of unknown text", spec.unknown);
  for (const TokenId id : special.end_of_generation) {
    if (id == kNoToken || is_bad(id)) return refuse("an end of generation", id);
  }
  for (const std::vector<TokenId>* ids : {&spec.prefix, &spec.suffix, &spec.between}) {
    for (const TokenId id : *ids) {
      if (id == kNoToken || is_bad(id)) return refuse("a token around the text", id);
    }
  }
  for (const AddedToken& token : spec.added) {
    if (token.id == kNoToken || is_bad(token.id)) return refuse("an added token", token.id);
    if (token.content.size() > kMaxTokenBytes) {
      return fail("E_TOKENIZER", "an added token has more than 65536 bytes");
    }
  }
  return {};
}

using Model = std::variant<std::monostate, BpeModel, SpmModel, UnigramModel, WordPieceModel>;

class SpecTokenizer final : public Tokenizer {
 public:
  SpecTokenizer(TokenizerSpec spec, Normalizer normalizer, PreTokenizer pre_tokenizer)
      : spec_(std::move(spec)),
        vocabulary_(spec_),
        normalizer_(std::move(normalizer)),
        pieces_(spec_, normalizer_),
        pre_tokenizer_(std::move(pre_tokenizer)) {
    switch (spec_.model) {
      case ModelKind::bpe:
        model_.emplace<BpeModel>(vocabulary_);
        break;
      case ModelKind::spm:
        model_.emplace<SpmModel>(vocabulary_);
        break;
      case ModelKind::unigram:
        model_.emplace<UnigramModel>(vocabulary_);
        break;
      case ModelKind::wordpiece:
        model_.emplace<WordPieceModel>(vocabulary_);
        break;
    }
    for (const AddedToken& token : spec_.added) {
      if (token.normalized && !normalizer_.empty() && is_valid_utf8(token.content)) {
        normalized_added_.insert(token, normalizer_.run(token.content));
      } else {
        raw_added_.insert(token, token.content);
      }
    }
  }

  std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const override {
    std::vector<TokenId> ids;
    if (options.add_special) ids = spec_.prefix;
    raw_added_.split(
        text, options.parse_special, options.literal,
        [&](std::string_view gap) {
          const auto begin = static_cast<std::size_t>(gap.data() - text.data());
          const bool parse_special =
              options.parse_special && !touches(options.literal, begin, begin + gap.size());
          encode_gap(gap, begin == 0, parse_special, ids);
        },
        [&](TokenId id) { ids.push_back(id); });
    if (options.add_special) ids.insert(ids.end(), spec_.suffix.begin(), spec_.suffix.end());
    return ids;
  }

  std::string decode(std::span<const TokenId> ids, bool keep_special) const override {
    std::string out;
    for (const TokenId id : ids) {
      if (!has(id) || (!keep_special && is_special(id))) continue;
      out += pieces_[id];
    }
    const bool drops_space = spec_.strip_leading_space || spec_.model == ModelKind::wordpiece;
    if (drops_space && out.starts_with(' ')) out.erase(0, 1);
    return out;
  }

  std::string_view piece(TokenId id) const override {
    return has(id) ? pieces_[id] : std::string_view{};
  }
  bool is_special(TokenId id) const override {
    return has(id) && (vocabulary_.type(id) == TokenType::control ||
                       vocabulary_.type(id) == TokenType::unknown);
  }
  std::int32_t vocab_size() const override {
    return static_cast<std::int32_t>(spec_.tokens.size());
  }
  const SpecialTokens& special() const override { return spec_.special; }
  TokenId find(std::string_view token) const override { return vocabulary_.find(token); }
  std::string_view token_text(TokenId id) const override {
    return has(id) ? spec_.tokens[static_cast<std::size_t>(id)] : std::string_view{};
  }
  std::string_view model_name() const override {
    switch (spec_.model) {
      case ModelKind::bpe:
        return "bpe";
      case ModelKind::spm:
        return "spm";
      case ModelKind::unigram:
        return "unigram";
      case ModelKind::wordpiece:
        return "wordpiece";
    }
    return "";
  }
  Pair pair() const override {
    return {spec_.prefix, spec_.between.empty() ? spec_.suffix : spec_.between, spec_.suffix};
  }

 private:
  bool has(TokenId id) const { return id >= 0 && id < vocab_size(); }

  // What lies between added tokens. Bytes that are no UTF-8 skip all steps that know characters.
  void encode_gap(std::string_view text, bool is_first, bool parse_special,
                  std::vector<TokenId>& ids) const {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = utf8_run_end(text, at, true);
      if (end > at)
        encode_valid(text.substr(at, end - at), is_first && at == 0, parse_special, ids);
      at = utf8_run_end(text, end, false);
      if (at > end) encode_word(text.substr(end, at - end), ids);
    }
  }

  void encode_valid(std::string_view text, bool is_first, bool parse_special,
                    std::vector<TokenId>& ids) const {
    std::string normalized;
    if (!normalizer_.empty()) {
      normalized = normalizer_.run(text);
      text = normalized;
    }
    normalized_added_.split(
        text, parse_special, {},
        [&](std::string_view gap) {
          std::string words(gap);
          std::vector<Span> spans;
          pre_tokenizer_.run(words, is_first && gap.data() == text.data(), spans);
          for (const Span span : spans) {
            encode_word(std::string_view(words).substr(span.start, span.end - span.start), ids);
          }
        },
        [&](TokenId id) { ids.push_back(id); });
  }

  void encode_word(std::string_view word, std::vector<TokenId>& ids) const {
    std::visit(
        [&](const auto& model) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(model)>, std::monostate>) {
            model.encode(word, ids);
          }
        },
        model_);
  }

  TokenizerSpec spec_;
  Vocabulary vocabulary_;
  Normalizer normalizer_;
  Pieces pieces_;
  PreTokenizer pre_tokenizer_;
  AddedTokenFinder raw_added_, normalized_added_;
  Model model_;
};

Result<TokenizerSpec> read_spec(const storage::Checkpoint& checkpoint) {
  if (checkpoint.format() == storage::Format::gguf) return spec_from_gguf(checkpoint.metadata());
  if (checkpoint.tokenizer_json().empty()) {
    return fail("E_TOKENIZER", "tokenizer.json is missing beside the safetensors files");
  }
  return spec_from_json(checkpoint.tokenizer_json(), checkpoint.tokenizer_config_json(),
                        checkpoint.generation_config_json());
}

}  // namespace

Status check_scores(const TokenizerSpec& spec) {
  for (std::size_t i = 0; i < spec.scores.size(); ++i) {
    if (!std::isfinite(spec.scores[i])) {
      return fail("E_TOKENIZER", "the score of " + token_label(i) + " is not a finite number");
    }
  }
  return {};
}

Result<std::shared_ptr<const Tokenizer>> build_tokenizer(TokenizerSpec spec) {
  ORRERY_TRY_VOID(check_sizes(spec));
  ORRERY_TRY_VOID(check_tokens(spec));
  ORRERY_TRY_VOID(check_ids(spec));
  find_end_of_generation(spec);
  ORRERY_TRY(Normalizer normalizer, Normalizer::create(std::move(spec.normalizer)));
  ORRERY_TRY(PreTokenizer pre_tokenizer, PreTokenizer::create(std::move(spec.pre_tokenizer)));
  return std::make_shared<const SpecTokenizer>(std::move(spec), std::move(normalizer),
                                               std::move(pre_tokenizer));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const storage::Checkpoint& checkpoint) {
  auto spec = read_spec(checkpoint);
  if (!spec) return fail_in(checkpoint.label(), spec.error());
  auto tokenizer = build_tokenizer(std::move(*spec));
  if (!tokenizer) return fail_in(checkpoint.label(), tokenizer.error());
  return tokenizer;
}

}  // namespace orrery::text
