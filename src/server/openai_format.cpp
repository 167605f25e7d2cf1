#include "server/openai_format.hpp"

#include <fmt/format.h>

namespace orrery::server {
namespace {

Json token_object(const text::Tokenizer& tokenizer, const engine::TokenLogprob& token) {
  const std::string_view piece = tokenizer.piece(token.id);
  Json out = Json::object();
  out["token"] = std::string(piece);
  out["logprob"] = token.logprob;
  out["bytes"] = Json::array();
  for (const char c : piece) out["bytes"].push_back(static_cast<unsigned char>(c));
  return out;
}

}  // namespace

std::string sse(const Json& data) {
  return "data: " + to_text(data) + "\n\n";
}

std::string_view finish_text(const ChoiceEnd& end) {
  if (is_cut_off(end)) return "length";
  return end.called_tools ? "tool_calls" : "stop";
}

Json usage_object(const Usage& usage) {
  Json out = Json::object();
  out["prompt_tokens"] = usage.prompt_tokens;
  out["completion_tokens"] = usage.new_tokens;
  out["total_tokens"] = std::uint64_t{usage.prompt_tokens} + usage.new_tokens;
  out["prompt_tokens_details"]["cached_tokens"] = usage.cached_tokens;
  return out;
}

Json timings_object(const Usage& usage) {
  const auto rate = [](double count, double seconds) { return seconds > 0 ? count / seconds : 0; };
  const std::uint32_t computed = usage.prompt_tokens - usage.cached_tokens;
  Json out = Json::object();
  out["cache_n"] = usage.cached_tokens;
  out["prompt_n"] = computed;
  out["prompt_ms"] = usage.prefill_seconds * 1e3;
  out["prompt_per_token_ms"] = computed > 0 ? usage.prefill_seconds * 1e3 / computed : 0;
  out["prompt_per_second"] = rate(computed, usage.prefill_seconds);
  out["predicted_n"] = usage.new_tokens;
  out["predicted_ms"] = usage.decode_seconds * 1e3;
  out["predicted_per_token_ms"] =
      usage.new_tokens > 0 ? usage.decode_seconds * 1e3 / usage.new_tokens : 0;
  out["predicted_per_second"] = rate(usage.new_tokens, usage.decode_seconds);
  return out;
}

Json logprob_object(const text::Tokenizer& tokenizer, const TokenLogprobs& logprobs) {
  Json out = token_object(tokenizer, logprobs.chosen);
  out["top_logprobs"] = Json::array();
  for (const engine::TokenLogprob& token : logprobs.best) {
    out["top_logprobs"].push_back(token_object(tokenizer, token));
  }
  return out;
}

ApiResult<OpenaiOptions> parse_openai_options(const Models& models, const Json& body) {
  OpenaiOptions options;
  const Json* functions = find(body, "functions");
  if (functions != nullptr && !functions->empty()) {
    return refuse(501, "functions is not supported; use tools", "functions", "not_supported");
  }
  ORRERY_TRY(options.form, parse_form(body));
  ORRERY_TRY(const auto name, get_string(body, "model", 1U << 20));
  ORRERY_TRY(options.model, models.find_writer(name.value_or("")));
  GenerationOptions& generation = options.generation;
  ORRERY_TRY(generation.sampling, parse_sampling(body, *options.model));
  ORRERY_TRY(generation.stop, parse_stop(body, "stop"));
  ORRERY_TRY(const auto n, get_integer(body, "n", 1, kMaxChoices));
  generation.n = static_cast<std::uint32_t>(n.value_or(1));
  for (const char* field : {"max_tokens", "max_completion_tokens"}) {
    ORRERY_TRY(const auto most, get_integer(body, field, -1, INT32_MAX));
    if (most == 0)
      return refuse(400, fmt::format("{} must not be 0", field), field, "invalid_value");
    if (most) generation.max_tokens = static_cast<std::uint32_t>(*most < 0 ? 0 : *most);
  }
  ORRERY_TRY(generation.ignore_end, get_bool(body, "ignore_eos", false));
  if (const Json* lora = find(body, "lora")) {
    ORRERY_TRY(generation.adapters, parse_adapters(*lora, options.model->adapters.size(), "lora"));
  }
  ORRERY_TRY(options.stream, get_bool(body, "stream", false));
  const Json* stream_options = find(body, "stream_options");
  if (stream_options != nullptr && !stream_options->is_object()) {
    return refuse(400, "stream_options must be an object", "stream_options", "invalid_value");
  }
  if (stream_options != nullptr) {
    ORRERY_TRY(options.include_usage, get_bool(*stream_options, "include_usage", false));
  }
  return options;
}

}  // namespace orrery::server
