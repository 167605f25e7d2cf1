#include "text/infill.hpp"

#include <span>
#include <string_view>

namespace orrery::text {
namespace {

struct Kind {
  TokenId InfillTokens::* id;
  std::string_view key, old_key;
  std::span<const std::string_view> spellings;
};

// Qwen2.5-Coder, StarCoder, Granite and DeepSeek-Coder (U+FF5C and U+2581 stand in its spelling),
// CodeLlama (U+2581).
constexpr std::string_view kPrefix[] = {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>",
                                        "<\xEF\xBD\x9C"
                                        "fim\xE2\x96\x81"
                                        "begin\xEF\xBD\x9C>",
                                        "\xE2\x96\x81<PRE>"};
constexpr std::string_view kSuffix[] = {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>",
                                        "<\xEF\xBD\x9C"
                                        "fim\xE2\x96\x81"
                                        "hole\xEF\xBD\x9C>",
                                        "\xE2\x96\x81<SUF>"};
constexpr std::string_view kMiddle[] = {"<|fim_middle|>", "<fim_middle>", "<fim-middle>",
                                        "<\xEF\xBD\x9C"
                                        "fim\xE2\x96\x81"
                                        "end\xEF\xBD\x9C>",
                                        "\xE2\x96\x81<MID>"};
constexpr std::string_view kRepository[] = {"<|repo_name|>", "<repo_name>", "<reponame>"};
constexpr std::string_view kFile[] = {"<|file_sep|>", "<file_sep>"};

constexpr Kind kKinds[] = {
    {&InfillTokens::prefix, "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id",
     kPrefix},
    {&InfillTokens::suffix, "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id",
     kSuffix},
    {&InfillTokens::middle, "tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id",
     kMiddle},
    {&InfillTokens::repository, "tokenizer.ggml.fim_rep_token_id", "", kRepository},
    {&InfillTokens::file, "tokenizer.ggml.fim_sep_token_id", "", kFile},
};

TokenId by_key(const storage::Metadata& metadata, std::string_view key, std::int32_t vocab) {
  if (key.empty() || !metadata.has(key)) return kNoToken;
  const auto id = metadata.u32(key);
  return id && *id < static_cast<std::uint32_t>(vocab) ? static_cast<TokenId>(*id) : kNoToken;
}

TokenId by_text(const Tokenizer& tokenizer, std::span<const std::string_view> spellings) {
  for (const std::string_view text : spellings) {
    const TokenId id = tokenizer.find(text);
    if (id != kNoToken) return id;
  }
  return kNoToken;
}

}  // namespace

InfillTokens find_infill_tokens(const storage::Metadata& metadata, const Tokenizer& tokenizer) {
  InfillTokens tokens;
  for (const Kind& kind : kKinds) {
    TokenId id = by_key(metadata, kind.key, tokenizer.vocab_size());
    if (id == kNoToken) id = by_key(metadata, kind.old_key, tokenizer.vocab_size());
    if (id == kNoToken) id = by_text(tokenizer, kind.spellings);
    tokens.*kind.id = id;
  }
  return tokens;
}

}  // namespace orrery::text
