// tokenizer.ggml.* metadata of a GGUF file as a TokenizerSpec (GGUF specification, "Tokenizer").
#include <optional>
#include <string>
#include <utility>

#include "text/gguf_steps.hpp"
#include "text/pretokenize.hpp"
#include "text/tokenizer_spec.hpp"

namespace orrery::text {
namespace {

using storage::MetaArray;
using storage::Metadata;
using Kind = NormalizerStep::Kind;

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // U+2581
constexpr std::size_t kMaxNameShown = 64;
constexpr std::uint64_t kMaxCharsmapBytes = 1U << 20;  // SentencePiece's own has 240 KB

std::string shown(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, kMaxNameShown)) out += c >= ' ' && c <= '~' ? c : '?';
  return name.size() > kMaxNameShown ? out + "..." : out;
}

// Copies texts into one block, as the metadata may be gone when the tokenizer is used.
class TextBlock {
 public:
  explicit TextBlock(std::size_t size) : bytes_(std::make_shared<std::string>()) {
    bytes_->reserve(size);  // never grows: views stay valid
  }
  std::string_view add(std::string_view text) {
    const std::size_t start = bytes_->size();
    bytes_->append(text);
    return std::string_view(*bytes_).substr(start);
  }
  std::shared_ptr<const void> owner() const { return bytes_; }

 private:
  std::shared_ptr<std::string> bytes_;
};

std::size_t total_size(const std::vector<std::string_view>& texts) {
  std::size_t size = 0;
  for (const std::string_view text : texts) size += text.size();
  return size;
}

Result<std::optional<MetaArray>> optional_array(const Metadata& metadata, std::string_view key,
                                                MetaArray::Kind kind) {
  if (!metadata.has(key)) return std::nullopt;
  return metadata.array(key, kind);
}

// The number of items of an array, 0 when there is none.
std::uint64_t array_length(const Metadata& metadata, std::string_view key) {
  const storage::MetaValue* value = metadata.find(key);
  const auto shape = value == nullptr ? std::nullopt : storage::array_shape(*value);
  return shape ? shape->size : 0;
}

// The number of tokens, or the error of Metadata::array.
Result<std::size_t> count_tokens(const Metadata& metadata, std::string_view key) {
  const storage::MetaValue* value = metadata.find(key);
  const auto shape = value == nullptr ? std::nullopt : storage::array_shape(*value);
  if (shape && shape->kind == MetaArray::Kind::strings) return shape->size;
  return std::unexpected(metadata.array(key, MetaArray::Kind::strings).error());
}

Status check_length(const Metadata& metadata, std::string_view key, std::size_t expected) {
  const std::uint64_t found = array_length(metadata, key);
  if (!metadata.has(key) || found == expected) return {};
  return fail("E_TOKENIZER", std::string(key) + " has " + std::to_string(found) +
                                 " entries, but the vocabulary has " + std::to_string(expected) +
                                 " tokens");
}

Status read_merges(const MetaArray& merges, TextBlock& block, TokenizerSpec& spec) {
  spec.merges.reserve(merges.strings.size());
  for (std::size_t i = 0; i < merges.strings.size(); ++i) {
    const std::string_view text = block.add(merges.strings[i]);
    const std::size_t space = text.find(' ', 1);  // the first byte belongs to the left part
    if (space == std::string_view::npos) {
      return fail("E_TOKENIZER", "merge " + std::to_string(i) + " of tokenizer.ggml.merges (\"" +
                                     shown(text) + "\") has no space between two parts");
    }
    spec.merges.push_back({text.substr(0, space), text.substr(space + 1)});
  }
  return {};
}

// Before the texts, which take much more memory: `n` is the number of tokens.
Status read_types_and_scores(const Metadata& metadata, std::size_t n, TokenizerSpec& spec) {
  constexpr std::string_view kTypeKey = "tokenizer.ggml.token_type";
  constexpr std::string_view kScoreKey = "tokenizer.ggml.scores";
  ORRERY_TRY_VOID(check_length(metadata, kTypeKey, n));
  ORRERY_TRY(const auto types, optional_array(metadata, kTypeKey, MetaArray::Kind::integers));
  spec.types.assign(n, TokenType::normal);
  for (std::size_t i = 0; types && i < n; ++i) {
    const std::int64_t type = types->integers[i];
    if (type < 0 || type > 6) {
      return fail("E_TOKENIZER", "token " + std::to_string(i) + " has the type " +
                                     std::to_string(type) + "; 0 to 6 are defined");
    }
    if (type > 0) spec.types[i] = static_cast<TokenType>(type);
  }
  ORRERY_TRY_VOID(check_length(metadata, kScoreKey, n));
  ORRERY_TRY(auto scores, optional_array(metadata, kScoreKey, MetaArray::Kind::floats));
  if (scores) spec.scores = std::move(scores->floats);
  return check_scores(spec);
}

Status read_tokens(const Metadata& metadata, TokenizerSpec& spec) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  constexpr std::string_view kMerges = "tokenizer.ggml.merges";
  ORRERY_TRY(const std::size_t n, count_tokens(metadata, kTokens));
  if (n > kMaxVocabulary || array_length(metadata, kMerges) > kMaxVocabulary) {
    return fail("E_TOKENIZER", "the vocabulary has more than 1048576 tokens or merges");
  }
  ORRERY_TRY_VOID(read_types_and_scores(metadata, n, spec));
  ORRERY_TRY(MetaArray tokens, metadata.array(kTokens, MetaArray::Kind::strings));
  ORRERY_TRY(const auto merges, optional_array(metadata, kMerges, MetaArray::Kind::strings));
  TextBlock block(total_size(tokens.strings) + (merges ? total_size(merges->strings) : 0));
  for (std::string_view& token : tokens.strings) token = block.add(token);
  spec.tokens = std::move(tokens.strings);
  if (merges) ORRERY_TRY_VOID(read_merges(*merges, block, spec));
  spec.owner = block.owner();
  return {};
}

// The token id under `key`, or kNoToken when the key is absent.
Result<TokenId> read_id(const Metadata& metadata, const TokenizerSpec& spec, std::string_view key) {
  if (!metadata.has(key)) return kNoToken;
  ORRERY_TRY(const std::uint32_t id, metadata.u32(key));
  if (id >= spec.tokens.size()) {
    return fail("E_TOKENIZER", std::string(key) + " is " + std::to_string(id) +
                                   ", but the vocabulary has " +
                                   std::to_string(spec.tokens.size()) + " tokens");
  }
  return static_cast<TokenId>(id);
}

TokenId find_text(const TokenizerSpec& spec, std::string_view text) {
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    if (spec.tokens[i] == text) return static_cast<TokenId>(i);
  }
  return kNoToken;
}

Status read_special(const Metadata& metadata, TokenizerSpec& spec) {
  SpecialTokens& special = spec.special;
  ORRERY_TRY(special.bos, read_id(metadata, spec, "tokenizer.ggml.bos_token_id"));
  ORRERY_TRY(special.eos, read_id(metadata, spec, "tokenizer.ggml.eos_token_id"));
  ORRERY_TRY(special.unk, read_id(metadata, spec, "tokenizer.ggml.unknown_token_id"));
  ORRERY_TRY(special.pad, read_id(metadata, spec, "tokenizer.ggml.padding_token_id"));
  for (const std::string_view key :
       {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    ORRERY_TRY(const TokenId id, read_id(metadata, spec, key));
    if (id != kNoToken) special.end_of_generation.push_back(id);
  }
  // What files of these models leave out has the same text in all of them.
  struct Default {
    TokenId* id;
    std::string_view text;
  };
  const auto fill = [&](std::initializer_list<Default> defaults) {
    for (const Default& entry : defaults) {
      if (*entry.id == kNoToken) *entry.id = find_text(spec, entry.text);
    }
  };
  if (spec.model == ModelKind::spm) {
    fill({{&special.bos, "<s>"}, {&special.eos, "</s>"}, {&special.unk, "<unk>"}});
  } else if (spec.model == ModelKind::unigram) {
    fill({{&special.eos, "</s>"}, {&special.unk, "<unk>"}, {&special.pad, "<pad>"}});
  } else if (spec.model == ModelKind::wordpiece) {
    fill({{&special.unk, "[UNK]"}, {&special.pad, "[PAD]"}});
  }
  // Byte-pair vocabularies spell every byte they were trained on; the file's "unknown" may even be
  // the end of the text, which no content may become.
  if (spec.model != ModelKind::bpe) spec.unknown = special.unk;
  return {};
}

// Prefix and suffix; `bos`, `eos` are the model kind's habits, which the file overrides.
Status read_around(const Metadata& metadata, bool bos, bool eos, TokenizerSpec& spec) {
  ORRERY_TRY(const bool add_bos, metadata.boolean_or("tokenizer.ggml.add_bos_token", bos));
  ORRERY_TRY(const bool add_eos, metadata.boolean_or("tokenizer.ggml.add_eos_token", eos));
  if (add_bos && spec.special.bos != kNoToken) spec.prefix.push_back(spec.special.bos);
  if (add_eos && spec.special.eos != kNoToken) spec.suffix.push_back(spec.special.eos);
  return {};
}

// RoBERTa's pair, <s> a </s></s> b </s>, which the vocabularies with </s> at the end are trained
// on.
void end_twice(TokenizerSpec& spec) {
  spec.between = spec.suffix;
  spec.between.insert(spec.between.end(), spec.suffix.begin(), spec.suffix.end());
}

void list_added(const TokenizerSpec& spec, bool swallows_space, std::vector<AddedToken>& added) {
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const TokenType type = spec.types[i];
    const bool is_special = type == TokenType::control || type == TokenType::unknown;
    if ((!is_special && type != TokenType::user_defined) || spec.tokens[i].empty()) continue;
    const std::string_view text = spec.tokens[i];
    const bool is_plain = text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
    added.push_back({.id = static_cast<TokenId>(i),
                     .content = text,
                     .special = is_special,
                     .rstrip = swallows_space && !is_plain});
  }
}

// SentencePiece's normalisation: its character map if the file has one, spaces as U+2581, with one
// before the text where the model was trained so.
Status read_spm_style(const Metadata& metadata, bool prefix_habit, TokenizerSpec& spec) {
  ORRERY_TRY(const bool has_prefix,
             metadata.boolean_or("tokenizer.ggml.add_space_prefix", prefix_habit));
  constexpr std::string_view kMap = "tokenizer.ggml.precompiled_charsmap";
  if (array_length(metadata, kMap) > kMaxCharsmapBytes) {
    return fail("E_TOKENIZER", std::string(kMap) + " has " +
                                   std::to_string(array_length(metadata, kMap)) +
                                   " bytes; at most 1048576 are supported");
  }
  ORRERY_TRY(const auto map, optional_array(metadata, kMap, MetaArray::Kind::integers));
  if (map && !map->integers.empty()) {
    std::string bytes;
    for (const std::int64_t value : map->integers) bytes.push_back(static_cast<char>(value));
    spec.normalizer.push_back({.kind = Kind::charsmap, .a = std::move(bytes)});
  }
  ORRERY_TRY(const bool collapses,
             metadata.boolean_or("tokenizer.ggml.remove_extra_whitespaces", false));
  if (collapses) spec.normalizer.push_back({.kind = Kind::collapse_spaces});
  if (has_prefix) spec.normalizer.push_back({.kind = Kind::prepend, .a = " "});
  spec.normalizer.push_back({.kind = Kind::replace, .a = " ", .b = std::string(kEscapedSpace)});
  spec.escaped_spaces = true;
  spec.strip_leading_space = has_prefix;
  return {};
}

// The name of the pre-tokenizer; old files without one are known by their architecture.
Result<std::string_view> pre_name(const Metadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.ggml.pre";
  if (metadata.has(kKey)) return metadata.string(kKey);
  ORRERY_TRY(const std::string_view architecture, metadata.string_or("general.architecture", ""));
  if (architecture == "gpt2") return "gpt-2";
  if (architecture == "starcoder" || architecture == "qwen2" || architecture == "mpt" ||
      architecture == "falcon" || architecture == "bloom") {
    return architecture;
  }
  if (architecture == "phi2") return "phi-2";
  return fail("E_PRETOKENIZER",
              "the file names no pre-tokenizer (tokenizer.ggml.pre): a wrong one changes the "
              "tokens, so convert the model again with a current converter");
}

Status read_bpe(const Metadata& metadata, std::string_view name, TokenizerSpec& spec) {
  const auto pre = named_pre_tokenizer(name);
  if (!pre) {
    return fail("E_PRETOKENIZER", "the pre-tokenizer \"" + shown(name) +
                                      "\" (tokenizer.ggml.pre) is unknown; known are " +
                                      known_pre_tokenizers());
  }
  if (spec.merges.empty()) {
    return fail("E_TOKENIZER", "a byte-pair vocabulary needs tokenizer.ggml.merges");
  }
  spec.pre_tokenizer = pre->steps;
  spec.ignore_merges = pre->ignore_merges;
  if (pre->is_spm_style) {
    spec.byte_fallback = true;
    spec.newline_words = true;
    ORRERY_TRY_VOID(read_spm_style(metadata, false, spec));
  } else {
    spec.byte_level = true;
    if (pre->nfc) spec.normalizer.push_back({.kind = Kind::nfc});
  }
  ORRERY_TRY_VOID(read_around(metadata, pre->add_bos, pre->add_sep, spec));
  if (pre->add_sep) end_twice(spec);
  return {};
}

Status read_unigram(const Metadata& metadata, TokenizerSpec& spec) {
  spec.fuse_unknown = true;
  ORRERY_TRY_VOID(read_spm_style(metadata, false, spec));
  ORRERY_TRY_VOID(read_around(metadata, false, true, spec));
  end_twice(spec);
  return {};
}

Status read_wordpiece(const Metadata& metadata, TokenizerSpec& spec) {
  ORRERY_TRY(const bool lower, metadata.boolean_or("tokenizer.ggml.normalizer.lowercase", true));
  ORRERY_TRY(const bool strip,
             metadata.boolean_or("tokenizer.ggml.normalizer.strip_accents", lower));
  spec.normalizer = wordpiece_normalizer({.lower = lower, .strip = strip});
  spec.pre_tokenizer = wordpiece_cuts();
  spec.word_prefix = kEscapedSpace;  // "##" was taken off the continuations by the converter
  ORRERY_TRY(const TokenId cls, read_id(metadata, spec, "tokenizer.ggml.cls_token_id"));
  ORRERY_TRY(const TokenId sep, read_id(metadata, spec, "tokenizer.ggml.seperator_token_id"));
  if (spec.special.bos == kNoToken) {
    spec.special.bos = cls != kNoToken ? cls : find_text(spec, "[CLS]");
  }
  ORRERY_TRY_VOID(read_around(metadata, true, false, spec));
  const TokenId end = sep != kNoToken ? sep : find_text(spec, "[SEP]");
  ORRERY_TRY(const bool add_sep, metadata.boolean_or("tokenizer.ggml.add_sep_token", true));
  if (add_sep && end != kNoToken) spec.suffix = {end};
  return {};
}

}  // namespace

Result<TokenizerSpec> spec_from_gguf(const Metadata& metadata) {
  ORRERY_TRY(const std::string_view model, metadata.string("tokenizer.ggml.model"));
  TokenizerSpec spec;
  if (model == "gpt2" || model == "gemma4") {
    spec.model = ModelKind::bpe;
  } else if (model == "llama") {
    spec.model = ModelKind::spm;
  } else if (model == "t5") {
    spec.model = ModelKind::unigram;
  } else if (model == "bert") {
    spec.model = ModelKind::wordpiece;
  } else {
    return fail("E_TOKENIZER", "the tokenizer model \"" + shown(model) +
                                   "\" (tokenizer.ggml.model) is unknown; supported are gpt2, "
                                   "gemma4, llama, t5 and bert");
  }
  ORRERY_TRY_VOID(read_tokens(metadata, spec));
  ORRERY_TRY_VOID(read_special(metadata, spec));
  switch (spec.model) {
    case ModelKind::bpe: {
      std::string_view name = "gemma4";
      if (model == "gpt2") {
        ORRERY_TRY(name, pre_name(metadata));
      }
      ORRERY_TRY_VOID(read_bpe(metadata, name, spec));
      break;
    }
    case ModelKind::spm:
      ORRERY_TRY_VOID(read_spm_style(metadata, true, spec));
      ORRERY_TRY_VOID(read_around(metadata, true, false, spec));
      spec.byte_fallback = true;
      break;
    case ModelKind::unigram:
      ORRERY_TRY_VOID(read_unigram(metadata, spec));
      break;
    case ModelKind::wordpiece:
      ORRERY_TRY_VOID(read_wordpiece(metadata, spec));
      break;
  }
  ORRERY_TRY(const std::string_view architecture, metadata.string_or("general.architecture", ""));
  // Phi-3's own marks swallow the white space behind them; its GGUF files cannot say so.
  list_added(spec, spec.model == ModelKind::spm && architecture == "phi3", spec.added);
  return spec;
}

}  // namespace orrery::text
