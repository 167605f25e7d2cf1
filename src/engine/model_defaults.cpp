#include "engine/model_defaults.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "storage/config_json.hpp"

namespace orrery::engine {
namespace {

using nlohmann::json;

// One parameter under its names in both kinds of file.
struct FloatKey {
  const char* gguf;
  const char* config;
  float SamplerParams::* field;
};
struct IntKey {
  const char* gguf;
  const char* config;
  std::int32_t SamplerParams::* field;
};

constexpr FloatKey kFloats[] = {
    {"temp", "temperature", &SamplerParams::temperature},
    {"top_p", "top_p", &SamplerParams::top_p},
    {"min_p", "min_p", &SamplerParams::min_p},
    {"", "typical_p", &SamplerParams::typical_p},
    {"xtc_probability", "", &SamplerParams::xtc_probability},
    {"xtc_threshold", "", &SamplerParams::xtc_threshold},
    {"penalty_repeat", "repetition_penalty", &SamplerParams::repeat_penalty},
    {"mirostat_tau", "", &SamplerParams::mirostat_tau},
    {"mirostat_eta", "", &SamplerParams::mirostat_eta},
};
constexpr IntKey kInts[] = {
    {"top_k", "top_k", &SamplerParams::top_k},
    {"penalty_last_n", "", &SamplerParams::penalty_last_n},
    {"mirostat", "", &SamplerParams::mirostat},
};

std::optional<double> gguf_number(const storage::Metadata& metadata, const std::string& key) {
  const storage::MetaValue* value = metadata.find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* d = std::get_if<double>(value)) return *d;
  if (const auto* i = std::get_if<std::int64_t>(value)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<std::uint64_t>(value)) return static_cast<double>(*u);
  return std::numeric_limits<double>::quiet_NaN();
}

std::optional<double> json_number(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (!found->is_number()) return std::numeric_limits<double>::quiet_NaN();
  return found->get<double>();
}

class Defaults {
 public:
  Defaults(const storage::Checkpoint& checkpoint, std::vector<std::string>& warnings)
      : metadata_(checkpoint.metadata()), warnings_(warnings) {
    if (checkpoint.generation_config_json().empty()) return;
    auto config = storage::parse_config_json(checkpoint.generation_config_json());
    if (config) {
      config_ = std::move(*config);
    } else {
      warnings_.push_back("generation_config.json is not a JSON object; it is left out");
    }
  }

  SamplerParams read() {
    for (const FloatKey& key : kFloats) {
      const auto value = number(key.gguf, key.config);
      if (value) set(key.gguf, key.config, key.field, static_cast<float>(*value));
    }
    for (const IntKey& key : kInts) {
      const auto value = number(key.gguf, key.config);
      const bool whole = value && *value >= -1 && *value <= 1e9 && *value == std::trunc(*value);
      if (value)
        set(key.gguf, key.config, key.field, whole ? static_cast<std::int32_t>(*value) : -2);
    }
    const auto sample = config_.find("do_sample");
    if (sample != config_.end() && *sample == false) params_.temperature = 0;
    return params_;
  }

 private:
  std::optional<double> number(const char* gguf, const char* config) const {
    if (*gguf != 0) {
      if (const auto value = gguf_number(metadata_, std::string("general.sampling.") + gguf)) {
        return value;
      }
    }
    return *config != 0 ? json_number(config_, config) : std::nullopt;
  }

  template <class Field, class Value>
  void set(const char* gguf, const char* config, Field field, Value value) {
    SamplerParams changed = params_;
    changed.*field = value;
    const Status valid = validate(changed, 0);
    if (valid) {
      params_ = changed;
    } else {
      warnings_.push_back(fmt::format("the model's sampling default {} is left out: {}",
                                      *config != 0 ? config : gguf, valid.error().message));
    }
  }

  const storage::Metadata& metadata_;
  std::vector<std::string>& warnings_;
  json config_ = json::object();
  SamplerParams params_;
};

Result<std::string> template_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    for (const json& entry : value) {
      if (!entry.is_object() || entry.value("name", json()) != "default") continue;
      const auto source = entry.find("template");
      if (source != entry.end() && source->is_string()) return source->get<std::string>();
    }
  }
  return fail("E_TEMPLATE",
              "tokenizer_config.json: chat_template is neither a text nor a list with one that is "
              "named default");
}

}  // namespace

SamplerParams sampling_defaults(const storage::Checkpoint& checkpoint,
                                std::vector<std::string>& warnings) {
  return Defaults(checkpoint, warnings).read();
}

Result<std::string> chat_template_source(const storage::Checkpoint& checkpoint) {
  if (checkpoint.metadata().has("tokenizer.chat_template")) {
    ORRERY_TRY(const auto source, checkpoint.metadata().string("tokenizer.chat_template"));
    return std::string(source);
  }
  if (!checkpoint.chat_template_jinja().empty()) {
    return std::string(checkpoint.chat_template_jinja());
  }
  const auto config = storage::parse_config_json(checkpoint.tokenizer_config_json());
  if (!config) return std::string();
  const auto found = config->find("chat_template");
  if (found == config->end() || found->is_null()) return std::string();
  return template_of(*found);
}

}  // namespace orrery::engine
