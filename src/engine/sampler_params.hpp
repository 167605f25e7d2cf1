// What a user may ask of the sampler: the field's names, meanings and defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "text/tokenizer.hpp"

namespace orrery::engine {

struct SamplerParams {
  float temperature = 0.8F;  // divides the logits; 0 is argmax
  std::int32_t top_k = 40;   // 0: all
  float top_p = 0.95F;       // 1: off
  float min_p = 0.05F;       // of the most probable token's probability; 0: off
  float typical_p = 1.0F;    // 1: off
  float top_n_sigma = 0.0F;  // standard deviations below the largest logit; 0: off

  float xtc_probability = 0.0F;  // 0: off
  float xtc_threshold = 0.1F;    // above 0.5: off

  // Over the last penalty_last_n tokens of prompt and answer; 0: none, -1: the whole context.
  std::int32_t penalty_last_n = 64;
  float repeat_penalty = 1.0F;     // 1: off
  float frequency_penalty = 0.0F;  // 0: off
  float presence_penalty = 0.0F;   // 0: off

  float dry_multiplier = 0.0F;  // 0: off
  float dry_base = 1.75F;
  std::int32_t dry_allowed_length = 2;
  std::int32_t dry_last_n = -1;             // 0: off, -1: the whole context
  std::vector<text::TokenId> dry_breakers;  // see dry_breaker_tokens()

  float dynatemp_range = 0.0F;  // 0: off
  float dynatemp_exponent = 1.0F;

  // Added to the temperature while the answer repeats itself (repetition.hpp); 0: off.
  float repetition_temperature = 0.0F;

  std::int32_t mirostat = 0;  // 0: off, 1, 2: version; replaces every truncation
  float mirostat_tau = 5.0F;
  float mirostat_eta = 0.1F;

  std::vector<std::pair<text::TokenId, float>> logit_bias;  // -infinity bans a token
  std::int32_t n_logprobs = 0;        // alternatives reported for each token, at most 64
  bool logprobs_of_draw = false;      // reported ones are of the draw, not the model's own
  std::optional<std::uint64_t> seed;  // absent: a new one each time
};

inline constexpr std::int32_t kMaxLogprobs = 64;

// E_PARAM names the first parameter that is out of range and what is allowed.
Status validate(const SamplerParams& params, std::int32_t vocab_size);

// Every token whose text contains one of the strings: the default set of the field is a line
// break, a colon, a double quote and an asterisk.
std::vector<text::TokenId> dry_breaker_tokens(const text::Tokenizer& tokenizer,
                                              std::span<const std::string> strings);

}  // namespace orrery::engine
