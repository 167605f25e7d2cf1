#include "server/native_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "server/inputs.hpp"

namespace orrery::server {
namespace {

using engine::SamplerParams;
using Tokens = std::vector<text::TokenId>;

std::unexpected<ApiError> wrong(std::string_view field, std::string_view what) {
  return refuse(400, fmt::format("{} {}", field, what), std::string(field), "invalid_value");
}

// The samplers in the order in which they run, each with what switches it off.
struct NamedSampler {
  std::string_view name, other_name;
  void (*leave_out)(SamplerParams& params);
};
constexpr NamedSampler kSamplers[] = {
    {"penalties", "",
     [](SamplerParams& p) {
       p.repeat_penalty = 1;
       p.frequency_penalty = p.presence_penalty = 0;
     }},
    {"dry", "", [](SamplerParams& p) { p.dry_multiplier = 0; }},
    {"top_n_sigma", "top-n-sigma", [](SamplerParams& p) { p.top_n_sigma = 0; }},
    {"top_k", "top-k", [](SamplerParams& p) { p.top_k = 0; }},
    {"typ_p", "typical_p", [](SamplerParams& p) { p.typical_p = 1; }},
    {"top_p", "top-p", [](SamplerParams& p) { p.top_p = 1; }},
    {"min_p", "min-p", [](SamplerParams& p) { p.min_p = 0; }},
    {"xtc", "", [](SamplerParams& p) { p.xtc_probability = 0; }},
    {"temperature", "temp",
     [](SamplerParams& p) {
       if (p.temperature > 0) p.temperature = 1;
       p.dynatemp_range = 0;
     }},
};
constexpr std::size_t kMaxSamplers = 32;

// `samplers` says which of them run. Their order is fixed; names of others are passed over, as
// llama.cpp does.
ApiStatus parse_samplers(const Json& body, SamplerParams& params) {
  const Json* list = find(body, "samplers");
  if (list == nullptr || list->is_string()) return {};
  if (!list->is_array() || list->size() > kMaxSamplers) {
    return wrong("samplers", "must be a list of names");
  }
  const NamedSampler* last = kSamplers;
  std::vector<const NamedSampler*> named;
  for (const Json& item : *list) {
    if (!item.is_string()) return wrong("samplers", "must be a list of names");
    const auto& name = item.get_ref<const std::string&>();
    const auto* const found = std::ranges::find_if(kSamplers, [&](const auto& known) {
      return known.name == name || known.other_name == name;
    });
    if (found == std::end(kSamplers)) continue;
    if (found < last) {
      return wrong("samplers",
                   "cannot be put into another order: penalties, dry, top_n_sigma, "
                   "top_k, typ_p, top_p, min_p, xtc, temperature");
    }
    last = found;
    named.push_back(found);
  }
  for (const NamedSampler& sampler : kSamplers) {
    if (std::ranges::find(named, &sampler) == named.end()) sampler.leave_out(params);
  }
  return {};
}

ApiStatus parse_probabilities(const Json& body, GenerationOptions& generation) {
  ORRERY_TRY(const auto count, get_integer(body, "n_probs", 0, engine::kMaxLogprobs));
  if (count.value_or(0) > 0) generation.want_logprobs(static_cast<std::uint32_t>(*count));
  ORRERY_TRY(generation.sampling.logprobs_of_draw, get_bool(body, "post_sampling_probs", false));
  return {};
}

// n_predict, which llama.cpp also reads as max_tokens: -1 is no limit.
ApiStatus parse_length(const Json& body, NativeOptions& options) {
  for (const char* field : {"max_tokens", "n_predict"}) {
    ORRERY_TRY(const auto most, get_integer(body, field, -1, INT32_MAX));
    if (!most) continue;
    options.writes = *most != 0;
    options.generation.max_tokens = static_cast<std::uint32_t>(std::max<std::int64_t>(*most, 0));
  }
  if (!options.writes) options.generation.max_tokens = 1;  // the first is chosen in any case
  ORRERY_TRY(const auto milliseconds, get_number(body, "t_max_predict_ms", -1, 1e9));
  if (milliseconds && *milliseconds > 0) options.most_seconds = *milliseconds / 1e3;
  return {};
}

ApiStatus parse_fields(const Json& body, std::vector<std::string>& fields) {
  const Json* list = find(body, "response_fields");
  if (list == nullptr) return {};
  constexpr std::size_t kMost = 64;
  if (!list->is_array() || list->size() > kMost) {
    return wrong("response_fields", "must be a list of up to 64 names");
  }
  for (const Json& item : *list) {
    if (!item.is_string()) return wrong("response_fields", "must be a list of up to 64 names");
    fields.push_back(item.get<std::string>());
  }
  return {};
}

ApiStatus parse_place(const Json& body, GenerationOptions& generation) {
  ORRERY_TRY(const auto slot, get_integer(body, "id_slot", -1, INT32_MAX));
  if (slot.value_or(-1) >= 0) generation.slot = static_cast<std::uint32_t>(*slot);
  ORRERY_TRY(generation.reuses, get_bool(body, "cache_prompt", true));
  return {};
}

ApiResult<Tokens> parse_mixed(const Json& list, const ServedModel& model) {
  Tokens tokens;
  for (const Json& item : list) {
    if (item.is_string()) {
      const Tokens part =
          model.model->tokenizer().encode(item.get_ref<const std::string&>(),
                                          {.add_special = tokens.empty(), .parse_special = true});
      tokens.insert(tokens.end(), part.begin(), part.end());
      continue;
    }
    const auto id = whole_number(item);
    if (!id || *id < 0 || *id >= model.model->n_tokens()) {
      return refuse(400, "prompt holds what is neither text nor a token id", "prompt",
                    "invalid_prompt");
    }
    tokens.push_back(static_cast<text::TokenId>(*id));
  }
  if (tokens.empty()) return refuse(400, "the prompt is empty", "prompt", "invalid_prompt");
  return tokens;
}

}  // namespace

ApiResult<NativeOptions> parse_native_options(const Models& models, const Json& body) {
  NativeOptions options;
  ORRERY_TRY(options.form, parse_form(body));
  if (options.form.kind == AnswerForm::Kind::tools) {
    return wrong("tools", "are for /v1/chat/completions");
  }
  ORRERY_TRY(const auto name, get_string(body, "model", 1U << 20));
  ORRERY_TRY(options.model, models.find_writer(name.value_or("")));
  GenerationOptions& generation = options.generation;
  ORRERY_TRY(generation.sampling, parse_sampling(body, *options.model));
  if (!generation.sampling.seed) generation.sampling.seed = std::random_device{}();
  ORRERY_TRY_VOID(parse_samplers(body, generation.sampling));
  ORRERY_TRY_VOID(parse_probabilities(body, generation));
  ORRERY_TRY_VOID(parse_length(body, options));
  ORRERY_TRY(generation.stop, parse_stop(body, "stop"));
  ORRERY_TRY(generation.ignore_end, get_bool(body, "ignore_eos", false));
  ORRERY_TRY_VOID(parse_place(body, generation));
  if (const Json* lora = find(body, "lora")) {
    ORRERY_TRY(generation.adapters, parse_adapters(*lora, options.model->adapters.size(), "lora"));
  }
  ORRERY_TRY(options.stream, get_bool(body, "stream", false));
  ORRERY_TRY(options.return_tokens, get_bool(body, "return_tokens", false));
  ORRERY_TRY(options.return_progress, get_bool(body, "return_progress", false));
  ORRERY_TRY(options.timings_per_token, get_bool(body, "timings_per_token", false));
  ORRERY_TRY_VOID(parse_fields(body, options.fields));
  return options;
}

ApiResult<std::vector<Tokens>> parse_native_prompts(const Json& body, const ServedModel& model) {
  const Json* prompt = find(body, "prompt");
  const auto refused = [](std::string_view what) {
    return refuse(400, fmt::format("prompt {}", what), "prompt", "invalid_prompt");
  };
  if (prompt == nullptr) return refused("is missing");
  if (!prompt->is_string() && !prompt->is_array()) {
    return refused("must be a text, a list of texts and token ids or a list of such prompts");
  }
  const bool is_one = prompt->is_string() || std::ranges::any_of(*prompt, [](const Json& item) {
                        return item.is_number();
                      });
  std::vector<Tokens> prompts;
  for (const Json& one : is_one ? Json::array({*prompt}) : *prompt) {
    if (prompts.size() >= static_cast<std::size_t>(kMaxChoices)) {
      return refused(fmt::format("holds more than {} prompts", kMaxChoices));
    }
    if (!one.is_string() && !one.is_array()) return refused("holds what is no prompt");
    ORRERY_TRY(Tokens tokens, parse_mixed(one.is_array() ? one : Json::array({one}), model));
    prompts.push_back(std::move(tokens));
  }
  if (prompts.empty()) return refused("is empty");
  return prompts;
}

Json settings_object(const NativeOptions& options) {
  const GenerationOptions& generation = options.generation;
  Json out = sampling_object(generation.sampling);
  const bool is_limited = generation.max_tokens > 0;
  const std::int64_t most = !options.writes ? 0 : is_limited ? generation.max_tokens : -1;
  out["n_predict"] = most;
  out["max_tokens"] = most;
  out["seed"] = *generation.sampling.seed;
  out["stop"] = generation.stop;
  out["ignore_eos"] = generation.ignore_end;
  out["stream"] = options.stream;
  out["n_probs"] = generation.top_logprobs;
  out["post_sampling_probs"] = generation.sampling.logprobs_of_draw;
  out["timings_per_token"] = options.timings_per_token;
  out["grammar"] = options.form.grammar;
  out["samplers"] = Json::array();
  for (const NamedSampler& sampler : kSamplers) out["samplers"].push_back(sampler.name);
  return out;
}

}  // namespace orrery::server
