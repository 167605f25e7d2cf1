#include "model/rope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/check.hpp"
#include "model/limits.hpp"

namespace orrery::model {
namespace {

constexpr float kMaxTheta = 1e12F;
constexpr float kMaxFactor = 65'536.0F;
constexpr double kTwoPi = 2.0 * std::numbers::pi;

using Kind = RopeScaling::Kind;

// Where config.json keeps the scaling: transformers 5 has rope_parameters (with one section for
// each kind of layer in gemma3), earlier ones have rope_scaling.
std::string find_section(const Source& source) {
  for (const std::string section : {"rope_parameters/full_attention/", "rope_parameters/"}) {
    if (source.has({"", section + "rope_theta"})) return section;
    if (source.has({"", section + "rope_type"})) return section;
  }
  return "rope_scaling/";
}

// The parameters of one section.
class Section {
 public:
  explicit Section(const Source& source) : source_(source), prefix_(find_section(source)) {}

  Result<float> number(std::string_view gguf, std::string_view field, float high,
                       float fallback) const {
    const std::string path = prefix_ + std::string(field);
    return source_.positive_or({gguf, path}, high, fallback);
  }
  // Only config.json has it; 0 where it says nothing.
  Result<float> number_or_zero(std::string_view field) const {
    const std::string path = prefix_ + std::string(field);
    return source_.from_zero_or({"", path}, kMaxFactor, 0.0F);
  }
  Result<std::vector<float>> numbers(std::string_view field) const {
    const std::string path = prefix_ + std::string(field);
    return source_.floats({"", path});
  }

  Result<Kind> kind() const {
    std::string path = prefix_ + "rope_type";
    if (!source_.has({"", path})) path = prefix_ + "type";  // before transformers 4.45
    const Key key{"rope.scaling.type", path};
    ORRERY_TRY(const std::string name, source_.text_or(key, "none"));
    if (name == "none" || name == "default") return Kind::none;
    if (name == "linear") return Kind::linear;
    if (name == "llama3") return Kind::llama3;
    if (name == "yarn") return Kind::yarn;
    if (name == "longrope" || name == "su") return Kind::factors;
    return fail("E_HPARAM", fmt::format("{} is \"{}\", supported are none, linear, llama3, yarn "
                                        "and longrope",
                                        source_.name(key), name.substr(0, kMaxNameChars)));
  }

  Result<std::uint32_t> original_context(std::uint32_t fallback) const {
    std::string path = prefix_ + "original_max_position_embeddings";
    if (!source_.has({"", path})) path = "original_max_position_embeddings";
    return source_.integer_or({"rope.scaling.original_context_length", path}, 2, kMaxContext,
                              fallback);
  }

  Result<bool> truncate() const {
    const std::string path = prefix_ + "truncate";
    return source_.boolean_or({"", path}, true);
  }

 private:
  const Source& source_;
  std::string prefix_;
};

Status read_scaling(const Source& source, Hparams& h) {
  RopeScaling& s = h.rope_scaling;
  const Section section(source);
  ORRERY_TRY(s.kind, section.kind());
  ORRERY_TRY(s.original_context, section.original_context(h.context_length));
  ORRERY_TRY(s.factor, section.number("rope.scaling.factor", "factor", kMaxFactor, 1.0F));
  // GGUF says all of longrope's factor; absent, it is 1.
  const float unsaid = source.is_gguf() && s.kind == Kind::factors ? 1.0F : 0.0F;
  ORRERY_TRY(s.attention_factor,
             section.number("rope.scaling.attn_factor", "attention_factor", kMaxFactor, unsaid));
  ORRERY_TRY(s.mscale, section.number_or_zero("mscale"));
  ORRERY_TRY(s.mscale_all_dim, section.number_or_zero("mscale_all_dim"));
  ORRERY_TRY(s.low_freq_factor, section.number("", "low_freq_factor", kMaxFactor, 1.0F));
  ORRERY_TRY(s.high_freq_factor, section.number("", "high_freq_factor", kMaxFactor, 4.0F));
  ORRERY_TRY(s.beta_fast,
             section.number("rope.scaling.yarn_beta_fast", "beta_fast", kMaxFactor, 32.0F));
  ORRERY_TRY(s.beta_slow,
             section.number("rope.scaling.yarn_beta_slow", "beta_slow", kMaxFactor, 1.0F));
  ORRERY_TRY(s.truncate, section.truncate());
  ORRERY_TRY(s.short_factors, section.numbers("short_factor"));
  ORRERY_TRY(s.long_factors, section.numbers("long_factor"));
  if (s.kind == Kind::yarn) {  // files of Qwen2.5 say the context from before the stretch
    const double stretched = std::min(double{s.factor} * s.original_context, double{kMaxContext});
    h.context_length = std::max(h.context_length, static_cast<std::uint32_t>(stretched));
  }
  return {};
}

Status check_factors(const Source& source, const Hparams& h) {
  const RopeScaling& s = h.rope_scaling;
  if (s.kind == Kind::llama3 && s.high_freq_factor <= s.low_freq_factor) {
    return fail("E_HPARAM", "high_freq_factor of the rope scaling is not above low_freq_factor");
  }
  // In GGUF the factors are tensors, which the loader adds.
  if (s.kind != Kind::factors || source.is_gguf()) return {};
  for (const auto* list : {&s.short_factors, &s.long_factors}) {
    const bool positive = std::ranges::all_of(*list, [](float f) { return f > 0.0F; });
    if (list->size() != h.rope_dim / 2 || !positive) {
      return fail("E_HPARAM",
                  fmt::format("longrope has {} short and {} long factors, expected {} "
                              "positive ones each",
                              s.short_factors.size(), s.long_factors.size(), h.rope_dim / 2));
    }
  }
  return {};
}

// The pair whose wavelength makes `rotations` turns in the trained context (YaRN, appendix A.2).
double yarn_pair(double rotations, double theta, std::uint32_t rope_dim, double context) {
  return rope_dim * std::log(context / (rotations * kTwoPi)) / (2.0 * std::log(theta));
}

double yarn(const RopeScaling& s, double frequency, double theta, std::uint32_t rope_dim,
            std::uint32_t pair) {
  double low = yarn_pair(s.beta_fast, theta, rope_dim, s.original_context);
  double high = yarn_pair(s.beta_slow, theta, rope_dim, s.original_context);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rope_dim - 1.0);
  const double ramp = std::clamp((pair - low) / std::max(high - low, 0.001), 0.0, 1.0);
  return frequency / s.factor * ramp + frequency * (1.0 - ramp);
}

double llama3(const RopeScaling& s, double frequency) {
  const double turns = s.original_context * frequency / kTwoPi;  // in the first training's context
  if (turns < s.low_freq_factor) return frequency / s.factor;
  if (turns > s.high_freq_factor) return frequency;
  const double smooth = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1.0 - smooth) * frequency / s.factor + smooth * frequency;
}

}  // namespace

Status read_rope(const Source& source, Hparams& h, float default_theta) {
  std::string section = find_section(source);
  if (!source.has({"", section + "rope_theta"})) section.clear();
  const std::string theta = section + "rope_theta";
  ORRERY_TRY(h.rope_theta, source.positive_or({"rope.freq_base", theta}, kMaxTheta, default_theta));
  if (source.is_gguf()) {
    const Key dim{"rope.dimension_count", ""};
    ORRERY_TRY(h.rope_dim, source.integer_or(dim, 1, h.head_dim, h.head_dim));
  } else {
    std::string part = find_section(source) + "partial_rotary_factor";
    if (!source.has({"", part})) part = "partial_rotary_factor";
    ORRERY_TRY(const float factor, source.positive_or({"", part}, 1.0F, 1.0F));
    h.rope_dim = static_cast<std::uint32_t>(static_cast<float>(h.head_dim) * factor);
  }
  if (h.rope_dim % 2 != 0 || h.rope_dim == 0) {
    return fail("E_HPARAM",
                fmt::format("{} elements of a head rotate, expected an even number", h.rope_dim));
  }
  ORRERY_TRY_VOID(read_scaling(source, h));
  return check_factors(source, h);
}

Status read_rope_layers(const Source& source, std::uint32_t period, Hparams& h) {
  const Key list{"", "no_rope_layers"};
  ORRERY_TRY(const std::vector<bool> rotates, source.booleans(list));
  if (!rotates.empty()) {
    if (rotates.size() != h.n_layers) {
      return fail("E_HPARAM", fmt::format("{} has {} items for {} layers", source.name(list),
                                          rotates.size(), h.n_layers));
    }
    h.rope_layers = rotates;
    return {};
  }
  ORRERY_TRY(period, source.integer_or({"", "no_rope_layer_interval"}, 1, kMaxLayers, period));
  for (std::uint32_t i = 0; i < h.n_layers; ++i) h.rope_layers[i] = (i + 1) % period != 0;
  return {};
}

std::vector<float> rope_frequencies(const RopeScaling& s, float theta, std::uint32_t rope_dim,
                                    std::uint32_t context_length) {
  std::vector<float> frequencies;
  for (std::uint32_t i = 0; i < rope_dim / 2; ++i) {
    double frequency = std::pow(double{theta}, -2.0 * i / rope_dim);
    switch (s.kind) {
      case Kind::none:
        break;
      case Kind::linear:
        frequency /= s.factor;
        break;
      case Kind::llama3:
        frequency = llama3(s, frequency);
        break;
      case Kind::yarn:
        frequency = yarn(s, frequency, theta, rope_dim, i);
        break;
      case Kind::factors: {
        const auto& factors =
            context_length > s.original_context ? s.long_factors : s.short_factors;
        ORRERY_CHECK(factors.size() == rope_dim / 2);
        frequency /= factors[i];
        break;
      }
    }
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

float rope_mscale(const RopeScaling& s, std::uint32_t trained_context) {
  if (s.attention_factor > 0.0F) return s.attention_factor;
  if (s.kind == Kind::yarn) {
    const bool both = s.mscale > 0.0F && s.mscale_all_dim > 0.0F;
    const double over = yarn_mscale(s.factor, both ? s.mscale : 1.0);
    return static_cast<float>(both ? over / yarn_mscale(s.factor, s.mscale_all_dim) : over);
  }
  if (s.kind != Kind::factors || trained_context <= s.original_context) return 1.0F;
  const double factor = static_cast<double>(trained_context) / s.original_context;
  return static_cast<float>(std::sqrt(1.0 + std::log(factor) / std::log(s.original_context)));
}

}  // namespace orrery::model
