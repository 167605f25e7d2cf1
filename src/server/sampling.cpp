#include "server/sampling.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace orrery::server {
namespace {

using engine::SamplerParams;

struct NumberRule {
  std::string_view name;
  float SamplerParams::* field;
  double least, most;
};
struct IntegerRule {
  std::string_view name;
  std::int32_t SamplerParams::* field;
  std::int64_t least, most;
};

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

constexpr NumberRule kNumbers[] = {
    {"temperature", &SamplerParams::temperature, 0, 100},
    {"top_p", &SamplerParams::top_p, 0, 1},
    {"min_p", &SamplerParams::min_p, 0, 1},
    {"typical_p", &SamplerParams::typical_p, 0, 1},
    {"top_n_sigma", &SamplerParams::top_n_sigma, 0, 1e6},
    {"xtc_probability", &SamplerParams::xtc_probability, 0, 1},
    {"xtc_threshold", &SamplerParams::xtc_threshold, 0, 1},
    {"repeat_penalty", &SamplerParams::repeat_penalty, 1e-3, 1e3},
    {"repetition_penalty", &SamplerParams::repeat_penalty, 1e-3, 1e3},
    {"frequency_penalty", &SamplerParams::frequency_penalty, -100, 100},
    {"presence_penalty", &SamplerParams::presence_penalty, -100, 100},
    {"dry_multiplier", &SamplerParams::dry_multiplier, 0, 1e6},
    {"dry_base", &SamplerParams::dry_base, 1, 1e6},
    {"dynatemp_range", &SamplerParams::dynatemp_range, 0, 1e6},
    {"dynatemp_exponent", &SamplerParams::dynatemp_exponent, 0, 100},
    {"mirostat_tau", &SamplerParams::mirostat_tau, 0, 100},
    {"mirostat_eta", &SamplerParams::mirostat_eta, 0, 10},
};

// A top_k below 0 is written for "all" by several clients.
constexpr IntegerRule kIntegers[] = {
    {"top_k", &SamplerParams::top_k, -1, kMaxInt},
    {"repeat_last_n", &SamplerParams::penalty_last_n, -1, kMaxInt},
    {"dry_allowed_length", &SamplerParams::dry_allowed_length, 1, kMaxInt},
    {"dry_penalty_last_n", &SamplerParams::dry_last_n, -1, kMaxInt},
    {"mirostat", &SamplerParams::mirostat, 0, 2},
};

ApiStatus wrong_bias(std::string why) {
  return refuse(400, "logit_bias " + std::move(why), "logit_bias", "invalid_value");
}

ApiStatus add_bias(const Json& key, const Json& value, const ServedModel& model,
                   SamplerParams& params) {
  const std::int32_t vocab = model.model->n_tokens();
  std::int64_t id = -1;
  if (key.is_string()) {
    const auto& text = key.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc{} || end != text.data() + text.size()) id = -1;
  } else {
    id = whole_number(key).value_or(-1);
  }
  if (id < 0 || id >= vocab) {
    return wrong_bias(fmt::format("names tokens by ids from 0 to {}", vocab - 1));
  }
  float bias = -std::numeric_limits<float>::infinity();  // false bans a token
  if (value.is_number()) {
    const double number = value.get<double>();
    if (!(std::fabs(number) <= 1e4)) return wrong_bias("values are from -10000 to 10000");
    if (number > -100) bias = static_cast<float>(number);  // -100 is the common word for a ban
  } else if (!value.is_boolean() || value.get<bool>()) {
    return wrong_bias("values are numbers, or false");
  }
  params.logit_bias.emplace_back(static_cast<text::TokenId>(id), bias);
  return {};
}

// Every token of a text, as llama.cpp's clients may name them.
ApiStatus add_text_bias(const std::string& text, const Json& value, const ServedModel& model,
                        SamplerParams& params) {
  for (const text::TokenId id : model.model->tokenizer().encode(text, {})) {
    if (params.logit_bias.size() >= kMaxBiases) return wrong_bias("names too many tokens");
    ORRERY_TRY_VOID(add_bias(Json(id), value, model, params));
  }
  return {};
}

// {"id": bias, ...}, or llama.cpp's [[id or text, bias], ...].
ApiStatus parse_bias(const Json& body, const ServedModel& model, SamplerParams& params) {
  const Json* bias = find(body, "logit_bias");
  if (bias == nullptr) return {};
  if (!bias->is_object() && !bias->is_array()) return wrong_bias("must be an object");
  if (bias->size() > kMaxBiases)
    return wrong_bias(fmt::format("has more than {} entries", kMaxBiases));
  if (bias->is_object()) {
    for (const auto& [key, value] : bias->items()) {
      ORRERY_TRY_VOID(add_bias(Json(key), value, model, params));
    }
    return {};
  }
  for (const Json& pair : *bias) {
    if (!pair.is_array() || pair.size() != 2) return wrong_bias("entries are [id, bias]");
    const bool is_text = pair[0].is_string();
    ORRERY_TRY_VOID(is_text ? add_text_bias(pair[0].get<std::string>(), pair[1], model, params)
                            : add_bias(pair[0], pair[1], model, params));
  }
  return {};
}

// The tokens that end what DRY takes for a repetition. The vocabulary is searched, so only where it
// matters.
ApiStatus parse_breakers(const Json& body, const ServedModel& model, SamplerParams& params) {
  constexpr std::string_view kField = "dry_sequence_breakers";
  const Json* list = find(body, kField);
  std::vector<std::string> texts = {"\n", ":", "\"", "*"};
  if (list != nullptr) {
    texts.clear();
    bool fits = list->is_array() && list->size() <= kMaxStops;
    for (std::size_t i = 0; fits && i < list->size(); ++i) {
      const Json& text = (*list)[i];
      fits = text.is_string() && text.get_ref<const std::string&>().size() <= kMaxStopBytes &&
             !text.get_ref<const std::string&>().empty();
      if (fits) texts.push_back(text.get<std::string>());
    }
    if (!fits) {
      return refuse(400, fmt::format("{} must be a list of up to {} texts", kField, kMaxStops),
                    std::string(kField), "invalid_value");
    }
  }
  if (params.dry_multiplier > 0) {
    params.dry_breakers = engine::dry_breaker_tokens(model.model->tokenizer(), texts);
  }
  return {};
}

ApiStatus parse_seed(const Json& body, SamplerParams& params) {
  const Json* seed = find(body, "seed");
  if (seed == nullptr) return {};
  if (seed->is_number_unsigned()) {
    params.seed = seed->get<std::uint64_t>();
    return {};
  }
  const auto number = whole_number(*seed);
  if (!number)
    return refuse(400, "seed must be a whole number of 64 bits", "seed", "invalid_value");
  if (*number != -1) params.seed = static_cast<std::uint64_t>(*number);  // -1: a new one each time
  return {};
}

}  // namespace

ApiResult<SamplerParams> parse_sampling(const Json& body, const ServedModel& model) {
  SamplerParams params = model.model->sampling();
  for (const NumberRule& rule : kNumbers) {
    ORRERY_TRY(const auto value, get_number(body, rule.name, rule.least, rule.most));
    if (value) params.*rule.field = static_cast<float>(*value);
  }
  for (const IntegerRule& rule : kIntegers) {
    ORRERY_TRY(const auto value, get_integer(body, rule.name, rule.least, rule.most));
    if (value) params.*rule.field = static_cast<std::int32_t>(*value);
  }
  params.top_k = std::max(params.top_k, 0);
  ORRERY_TRY_VOID(parse_seed(body, params));
  ORRERY_TRY_VOID(parse_bias(body, model, params));
  ORRERY_TRY_VOID(parse_breakers(body, model, params));
  const Status valid = engine::validate(params, model.model->n_tokens());
  if (!valid) return std::unexpected(api_error(valid.error()));
  return params;
}

Json sampling_object(const SamplerParams& params) {
  Json out = Json::object();
  for (const NumberRule& rule : kNumbers) out[std::string(rule.name)] = params.*rule.field;
  for (const IntegerRule& rule : kIntegers) out[std::string(rule.name)] = params.*rule.field;
  out["logit_bias"] = Json::array();
  for (const auto& [id, bias] : params.logit_bias) {
    Json entry = Json::object();
    entry["token"] = id;
    entry["bias"] = std::isfinite(bias) ? Json(bias) : Json(false);
    out["logit_bias"].push_back(std::move(entry));
  }
  return out;
}

ApiResult<std::vector<std::string>> parse_stop(const Json& body, std::string_view name) {
  const Json* stop = find(body, name);
  std::vector<std::string> texts;
  if (stop == nullptr) return texts;
  const auto wrong = [&](std::string_view what) {
    return refuse(400, fmt::format("{} {}", name, what), std::string(name), "invalid_value");
  };
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  if (list.size() > kMaxStops) return wrong(fmt::format("holds more than {} strings", kMaxStops));
  for (const Json& text : list) {
    if (!text.is_string()) return wrong("must be a string or a list of strings");
    texts.push_back(text.get<std::string>());
    if (texts.back().empty()) return wrong("must not hold an empty string");
    if (texts.back().size() > kMaxStopBytes) {
      return wrong(fmt::format("holds a string of more than {} bytes", kMaxStopBytes));
    }
  }
  return texts;
}

}  // namespace orrery::server
