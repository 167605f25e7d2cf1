// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre. The patterns are the models' own
// (their tokenizer.json), which the names stand for.
#include <array>
#include <string>

#include "text/pretokenize.hpp"

namespace orrery::text {
namespace {

using Kind = PreTokenizerStep::Kind;

constexpr std::string_view kOneNumber = R"(\p{N})";
constexpr std::string_view kNumbers = R"(\p{N}+)";
constexpr std::string_view kThreeDigits = "[0-9][0-9][0-9]";
constexpr std::string_view kUpToThreeNumbers = R"(\p{N}{1,3})";
constexpr std::string_view kLineEnd = R"([\r\n])";

// DeepSeek LLM: letters that have case, ASCII and full-width signs, Han with what lies around it.
constexpr std::string_view kCasedLetters =
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293})"
    R"(\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a})"
    R"(\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556})"
    R"(\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf})"
    R"(\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d})"
    R"(\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d})"
    R"(\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4})"
    R"(\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4})"
    R"(\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124})"
    R"(\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f})"
    R"(\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4})"
    R"(\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f})"
    R"(\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17})"
    R"(\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3})"
    R"(\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df})"
    R"(\x{1e900}-\x{1e943}]+)";
constexpr std::string_view kDeepseekSigns =
    R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepseekHan =
    R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
constexpr std::string_view kHanKana = R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
constexpr std::string_view kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Kimi writes "and not Han" by class intersection; a look-ahead says the same.
constexpr std::string_view kKimi =
    R"(\p{Han}+|)"
    R"([^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*)"
    R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+)"
    R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
    R"(\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kExaoneMoe =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kMinicpm5 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kJais2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|)"
    R"(\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr std::string_view kBloom =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)";
constexpr std::string_view kFalconSigns = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr std::string_view kDefaultSigns = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr std::string_view kYoutuScripts =
    R"([\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+|[\x{ff01}\x{2026}\x{201c}\x{201d}\x{2018}\x{2019})"
    R"(\x{2014}\x{ff1a}\x{ff1b}\x{ff0c}\x{3001}-\x{303f}\x{fe30}-\x{fe4f}]+|[\x{3105}-\x{312f}]+|)"
    R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
constexpr std::string_view kYoutu =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// One row: the names, the patterns in order (every match and every gap becomes a piece), flags.
struct Row {
  std::string_view names;  // separated by spaces
  std::array<std::string_view, 6> patterns = {};
  bool ignore_merges = false;
  bool add_bos = false;
  bool add_sep = false;
  bool nfc = false;
};

constexpr Row kRows[] = {
    {.names = "default", .patterns = {kDefaultSigns, kGpt2Pattern, kNumbers, kThreeDigits}},
    {.names = "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = {kLlama3Pattern},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .patterns = {kLlama3Pattern}},
    {.names = "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez",
     .patterns = {kQwen2Pattern},
     .nfc = true},
    {.names = "stablelm2", .patterns = {kQwen2Pattern}, .nfc = true},
    {.names = "hunyuan solar-open grok-2", .patterns = {kQwen2Pattern}},
    {.names = "qwen35", .patterns = {kQwen35}, .nfc = true},
    {.names =
         "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum exaone4 jais "
         "trillion granite-docling",
     .patterns = {kGpt2Pattern}},
    {.names = "mpt olmo modern-bert", .patterns = {kGpt2Pattern}, .nfc = true},
    {.names = "jina-v1-en jina-v2-code roberta-bpe", .patterns = {kGpt2Pattern}, .add_sep = true},
    {.names = "smollm starcoder refact codeshell exaone minerva-7b mellum2",
     .patterns = {kOneNumber, kGpt2Pattern}},
    {.names = "command-r", .patterns = {kOneNumber, kGpt2Pattern}, .nfc = true},
    {.names = "falcon", .patterns = {kFalconSigns, kGpt2Pattern, kThreeDigits}},
    {.names = "deepseek-llm",
     .patterns = {kLineEnd, kCasedLetters, kDeepseekSigns, R"(\s+$)", kDeepseekHan, kNumbers}},
    {.names = "deepseek-coder",
     .patterns = {kLineEnd, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekHan, kOneNumber}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm",
     .patterns = {kUpToThreeNumbers, kHanKana, kDeepseek3}},
    {.names = "tekken", .patterns = {kTekken}, .ignore_merges = true, .add_bos = true},
    {.names = "gpt-4o llama4 kanana2 minimax-m2", .patterns = {kGpt4o}},
    {.names = "granite-embed-multi-97m", .patterns = {kGpt4o}, .ignore_merges = true},
    {.names = "tiny_aya cohere2moe", .patterns = {R"(\d{1,3}(?=(?:\d{3})*\b))", kGpt4o}},
    {.names = "kimi-k2", .patterns = {kKimi}},
    {.names = "superbpe", .patterns = {kNumbers, R"((?=(\d{3})+(?!\d)))"}},
    {.names = "bailingmoe bailingmoe2 llada-moe", .patterns = {kBailing}},
    {.names = "seed-coder", .patterns = {kSeedCoder}},
    {.names = "exaone-moe", .patterns = {kExaoneMoe}},
    {.names = "minicpm5", .patterns = {kUpToThreeNumbers, kMinicpm5}, .ignore_merges = true},
    {.names = "jais-2", .patterns = {kJais2}},
    {.names = "youtu", .patterns = {kYoutuScripts, kYoutu}, .ignore_merges = true},
    {.names = "poro-chat bloom gpt3-finnish", .patterns = {kBloom}},
    {.names = "viking", .patterns = {kBloom, kOneNumber}},
    {.names = "chameleon",
     .patterns = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", R"(([\t\n]|    |  ))",
                  kOneNumber, R"([\p{P}!-/:-@\[-`{-~])", kGpt2Pattern},
     .add_bos = true},
};

bool has_name(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = names.find(' ');
    if (names.substr(0, end) == name) return true;
    names = end == std::string_view::npos ? std::string_view{} : names.substr(end + 1);
  }
  return false;
}

constexpr std::string_view kSpmStyleNames = "gemma4 granite-embed-multi-311m sarvam-moe";

}  // namespace

std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name) {
  if (has_name(kSpmStyleNames, name)) {
    NamedPreTokenizer found;
    found.steps.push_back({.kind = Kind::new_line_runs});
    found.is_spm_style = true;
    found.add_bos = true;
    return found;
  }
  for (const Row& row : kRows) {
    if (!has_name(row.names, name)) continue;
    NamedPreTokenizer found{.ignore_merges = row.ignore_merges,
                            .add_bos = row.add_bos,
                            .add_sep = row.add_sep,
                            .nfc = row.nfc};
    for (const std::string_view pattern : row.patterns) {
      if (!pattern.empty()) found.steps.push_back({.pattern = std::string(pattern)});
    }
    return found;
  }
  return std::nullopt;
}

std::string known_pre_tokenizers() {
  std::string names;
  for (const Row& row : kRows) names += std::string(row.names) + " ";
  return names + std::string(kSpmStyleNames);
}

}  // namespace orrery::text
