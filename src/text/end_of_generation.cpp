#include "text/end_of_generation.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace orrery::text {
namespace {

// U+FF5C and U+2581 stand in DeepSeek's spelling.
constexpr std::array<std::string_view, 26> kTurnEnds = {"<|eot_id|>",
                                                        "<|im_end|>",
                                                        "<|end|>",
                                                        "<|return|>",
                                                        "<|call|>",
                                                        "<|flush|>",
                                                        "<|calls|>",
                                                        "<end_of_turn>",
                                                        "<|endoftext|>",
                                                        "<|end_of_text|>",
                                                        "<|eom_id|>",
                                                        "<EOT>",
                                                        "_<EOT>",
                                                        "[EOT]",
                                                        "[EOS]",
                                                        "</s>",
                                                        "<eos>",
                                                        "<turn|>",
                                                        "<|tool_response>",
                                                        "<end_of_utterance>",
                                                        "<|END_OF_TURN_TOKEN|>",
                                                        "[e~[",
                                                        "<|fim_pad|>",
                                                        "<|repo_name|>",
                                                        "<|file_sep|>",
                                                        "<\xEF\xBD\x9C"
                                                        "end\xE2\x96\x81of\xE2\x96\x81sentence"
                                                        "\xEF\xBD\x9C>"};

}  // namespace

void find_end_of_generation(TokenizerSpec& spec) {
  std::unordered_map<std::string_view, TokenId> found;
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    // Some files mark turn ends as mere user-defined tokens; "</s>" may really be one, as markup.
    const bool is_marked = spec.types[i] == TokenType::control ||
                           (spec.types[i] == TokenType::user_defined && spec.tokens[i] != "</s>");
    const bool is_known =
        is_marked && std::ranges::find(kTurnEnds, spec.tokens[i]) != kTurnEnds.end();
    if (is_known) found.emplace(spec.tokens[i], static_cast<TokenId>(i));
  }
  // Harmony's <|end|> ends a message, not the turn: <|return|> and <|call|> do that.
  const bool is_harmony = found.contains("<|return|>") && found.contains("<|call|>");
  const bool is_solar = found.contains("<|calls|>") && found.contains("<|flush|>");
  if (is_harmony || is_solar) found.erase("<|end|>");

  std::vector<TokenId>& ids = spec.special.end_of_generation;
  if (spec.special.eos != kNoToken) ids.push_back(spec.special.eos);
  for (const auto& [text, id] : found) {
    ids.push_back(id);
    spec.types[static_cast<std::size_t>(id)] = TokenType::control;
    for (AddedToken& token : spec.added) {
      if (token.id == id) token.special = true;
    }
  }
  std::ranges::sort(ids);
  const auto duplicates = std::ranges::unique(ids);
  ids.erase(duplicates.begin(), duplicates.end());
}

}  // namespace orrery::text
