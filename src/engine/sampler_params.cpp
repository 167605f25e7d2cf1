#include "engine/sampler_params.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace orrery::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Ranges include both ends; NaN is in none.
struct FloatRange {
  const char* name;
  float value, low, high;
};
struct IntRange {
  const char* name;
  std::int32_t value, low, high;
};

Status check_floats(const SamplerParams& p) {
  const FloatRange ranges[] = {
      {"temperature", p.temperature, 0, 1e6F},
      {"top_p", p.top_p, 0, 1},
      {"min_p", p.min_p, 0, 1},
      {"typical_p", p.typical_p, 0, 1},
      {"top_n_sigma", p.top_n_sigma, 0, 1e6F},
      {"xtc_probability", p.xtc_probability, 0, 1},
      {"xtc_threshold", p.xtc_threshold, 0, 1},
      {"repeat_penalty", p.repeat_penalty, 1e-3F, 1e3F},
      {"frequency_penalty", p.frequency_penalty, -100, 100},
      {"presence_penalty", p.presence_penalty, -100, 100},
      {"dry_multiplier", p.dry_multiplier, 0, 1e6F},
      {"dry_base", p.dry_base, 1, 1e6F},
      {"dynatemp_range", p.dynatemp_range, 0, 1e6F},
      {"dynatemp_exponent", p.dynatemp_exponent, 0, 100},
      {"repetition_temperature", p.repetition_temperature, 0, 100},
      {"mirostat_tau", p.mirostat_tau, 0, 100},
      {"mirostat_eta", p.mirostat_eta, 0, 10},
  };
  for (const FloatRange& range : ranges) {
    if (range.value >= range.low && range.value <= range.high) continue;
    return fail("E_PARAM", fmt::format("{} is {}; it must be from {} to {}", range.name,
                                       range.value, range.low, range.high));
  }
  return {};
}

Status check_integers(const SamplerParams& p) {
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  const IntRange ranges[] = {
      {"top_k", p.top_k, 0, kMax},
      {"penalty_last_n", p.penalty_last_n, -1, kMax},
      {"dry_allowed_length", p.dry_allowed_length, 1, kMax},
      {"dry_last_n", p.dry_last_n, -1, kMax},
      {"mirostat", p.mirostat, 0, 2},
      {"n_logprobs", p.n_logprobs, 0, kMaxLogprobs},
  };
  for (const IntRange& range : ranges) {
    if (range.value >= range.low && range.value <= range.high) continue;
    return fail("E_PARAM", fmt::format("{} is {}; it must be from {} to {}", range.name,
                                       range.value, range.low, range.high));
  }
  return {};
}

}  // namespace

Status validate(const SamplerParams& params, std::int32_t vocab_size) {
  ORRERY_TRY_VOID(check_floats(params));
  ORRERY_TRY_VOID(check_integers(params));
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocab_size) {
      return fail("E_PARAM", fmt::format("logit_bias names token {}; the vocabulary has {} tokens",
                                         id, vocab_size));
    }
    if (std::isnan(bias) || bias == kInfinity) {
      return fail("E_PARAM", fmt::format("logit_bias of token {} is not a number", id));
    }
  }
  return {};
}

std::vector<text::TokenId> dry_breaker_tokens(const text::Tokenizer& tokenizer,
                                              std::span<const std::string> strings) {
  std::vector<text::TokenId> ids;
  for (text::TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view piece = tokenizer.piece(id);
    const auto contained = [&](const std::string& s) {
      return !s.empty() && piece.find(s) != std::string_view::npos;
    };
    if (std::any_of(strings.begin(), strings.end(), contained)) ids.push_back(id);
  }
  return ids;
}

}  // namespace orrery::engine
