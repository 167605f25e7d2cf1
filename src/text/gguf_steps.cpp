#include "text/gguf_steps.hpp"

#include <utility>

#include "text/pretokenize.hpp"

namespace orrery::text {
namespace {

using Norm = NormalizerStep::Kind;
using Pre = PreTokenizerStep::Kind;

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // U+2581
constexpr std::uint32_t kMaxWordChars = 100;

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

// RoBERTa's pair, <s> a </s></s> b </s>.
bool ends_twice(const TokenizerSpec& spec) {
  return spec.suffix.size() == 1 &&
         spec.between == std::vector<TokenId>{spec.suffix[0], spec.suffix[0]};
}

}  // namespace

constinit const std::string_view kProbe =
    "Hello World! I'm sure it'S 12345 or 1,234.5 (about 67%) you'LL see camelCaseWords HTTPServer "
    "x=y+z; /path/to  file\t\ttab   \n\n  next line\r\n\r\n\xC3\x89t\xC3\xA9 na\xC3\xAFve "
    "e\xCC\x81"
    "tude \xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 \xE4\xBD\xA0\xE5\xA5\xBD"
    "\xE4\xB8\x96\xE7\x95\x8C\xE3\x80\x82 \xE3\x81\x93\xE3\x82\x93\xEF\xBC\x81 "
    "\xEC\x95\x88\xEB\x85\x95 \xF0\x9F\x98\x80\xF0\x9F\x9A\x80 a_b-c@d.e #tag $9.99 ~`^| <<>> "
    "\"quoted\" ''s 7\xE4\xBA\xBA 3rd  \n end.  ";

std::optional<std::string> find_pre_name(const TokenizerSpec& spec) {
  const bool nfc = spec.normalizer.size() == 1 && spec.normalizer[0].kind == Norm::nfc;
  if (!spec.normalizer.empty() && !nfc) return std::nullopt;
  const std::vector<std::string> words = words_of(spec.pre_tokenizer);
  const std::string names = known_pre_tokenizers() + " ";
  for (std::size_t at = 0; at < names.size(); at = names.find(' ', at) + 1) {
    const std::string name = names.substr(at, names.find(' ', at) - at);
    const auto known = named_pre_tokenizer(name);
    if (!known || known->is_spm_style || known->nfc != nfc) continue;
    if (known->add_sep != ends_twice(spec)) continue;
    if (known->ignore_merges == spec.ignore_merges && words_of(known->steps) == words) return name;
  }
  return std::nullopt;
}

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

std::optional<SpaceRule> find_unigram_rule(const TokenizerSpec& spec) {
  SpaceRule rule;
  bool strips = false, escapes = false;
  for (std::size_t i = 0; i < spec.normalizer.size(); ++i) {
    const NormalizerStep& step = spec.normalizer[i];
    const bool one_space = step.b == " " || step.b == kEscapedSpace;
    if (step.kind == Norm::charsmap && i == 0) {
      rule.charsmap = step.a;
    } else if (step.kind == Norm::replace_regex && step.a == " {2,}" && one_space) {
      rule.collapses = true;
    } else if (step.kind == Norm::strip) {
      strips = true;
    } else {
      return std::nullopt;
    }
  }
  for (const PreTokenizerStep& step : spec.pre_tokenizer) {
    if (step.kind == Pre::white_space && step.behavior == SplitBehavior::removed && !escapes) {
      rule.collapses = true;
    } else if (step.kind == Pre::metaspace && !escapes) {
      escapes = true;
      rule.prefix = step.prepend != PreTokenizerStep::Prepend::never;
    } else {
      return std::nullopt;
    }
  }
  return escapes && (rule.collapses || !strips) ? std::optional(rule) : std::nullopt;
}

std::vector<NormalizerStep> wordpiece_normalizer(const WordPieceRule& rule) {
  std::vector<NormalizerStep> steps = {{.kind = Norm::bert_clean}, {.kind = Norm::bert_cjk}};
  if (rule.strip) {
    steps.push_back({.kind = Norm::nfd});
    steps.push_back({.kind = Norm::strip_accents});
  }
  if (rule.lower) steps.push_back({.kind = Norm::lower_case});
  return steps;
}

std::vector<PreTokenizerStep> wordpiece_cuts() {
  return {{.kind = Pre::white_space, .behavior = SplitBehavior::removed},
          {.kind = Pre::punctuation}};
}

std::optional<WordPieceRule> find_wordpiece_rule(const TokenizerSpec& spec) {
  if (spec.continuation_prefix != "##" || spec.max_word_chars != kMaxWordChars) return std::nullopt;
  if (spec.pre_tokenizer != wordpiece_cuts()) return std::nullopt;
  for (const WordPieceRule rule : {WordPieceRule{true, true}, WordPieceRule{true, false},
                                   WordPieceRule{false, true}, WordPieceRule{false, false}}) {
    if (spec.normalizer == wordpiece_normalizer(rule)) return rule;
  }
  return std::nullopt;
}

}  // namespace orrery::text
