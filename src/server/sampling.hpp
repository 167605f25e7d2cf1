// How an answer is to be written: the parameters that all dialects share, each with its range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/sampler_params.hpp"
#include "engine/session.hpp"
#include "server/fields.hpp"
#include "server/models.hpp"

namespace orrery::server {

inline constexpr std::int64_t kMaxChoices = 16;
inline constexpr std::size_t kMaxStops = 16, kMaxStopBytes = 256;
inline constexpr std::int64_t kMaxTopLogprobs = 20;
inline constexpr std::size_t kMaxBiases = 4096;

struct GenerationOptions {
  engine::SamplerParams sampling;
  std::uint32_t max_tokens = 0;  // 0: to the end of the turn or a full context
  std::vector<std::string> stop;
  std::uint32_t n = 1;
  bool ignore_end = false;
  bool logprobs = false;
  std::optional<std::uint32_t> slot;                        // see engine::Request
  bool reuses = true;                                       // likewise
  std::optional<std::vector<engine::AdapterUse>> adapters;  // absent: those of the API key
  std::uint32_t top_logprobs = 0;                           // alternatives shown beside each

  void want_logprobs(std::uint32_t top) {
    logprobs = true;
    top_logprobs = top;
    // The chosen token's own is computed where the sampler reports any.
    sampling.n_logprobs = static_cast<std::int32_t>(top > 0 ? top : 1);
  }
};

// The fields of the sampler by their common names (temperature, top_p, seed, logit_bias, ...) over
// the model's own defaults. Ollama's `options` and llama.cpp's body have the same names.
ApiResult<engine::SamplerParams> parse_sampling(const Json& body, const ServedModel& model);
// The same fields, as they were read; without the seed.
Json sampling_object(const engine::SamplerParams& params);
// `stop`: a string or a list of strings.
ApiResult<std::vector<std::string>> parse_stop(const Json& body, std::string_view name);

}  // namespace orrery::server
