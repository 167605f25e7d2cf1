#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/family.hpp"
#include "model/limits.hpp"

namespace orrery::model {
namespace {

constexpr float kMaxEps = 1.0F;
// A longer context is clamped: nothing is allocated from this number.
constexpr std::uint32_t kMaxSaidContext = 0xFFFFFFFFU;

// Required, unless transformers has a default and the file is a config.json.
Result<std::uint32_t> required(const Source& source, Key key, std::uint32_t high,
                               std::uint32_t unsaid) {
  if (unsaid == 0 || source.is_gguf()) return source.integer(key, 1, high);
  return source.integer_or(key, 1, high, unsaid);
}

Status read_heads(const Source& source, const CommonKeys& keys, const ConfigDefaults& defaults,
                  Hparams& h) {
  ORRERY_TRY(h.n_heads, required(source, keys.n_heads, kMaxHeads, defaults.n_heads));
  const bool defaulted = !source.is_gguf() && defaults.head_dim != 0;
  const std::uint32_t kv_heads = defaulted ? defaults.n_kv_heads : h.n_heads;
  ORRERY_TRY(h.n_kv_heads, source.integer_or(keys.n_kv_heads, 1, h.n_heads, kv_heads));
  if (h.n_heads % h.n_kv_heads != 0) {
    return fail("E_HPARAM", fmt::format("{} is {}, no divisor of the {} heads",
                                        source.name(keys.n_kv_heads), h.n_kv_heads, h.n_heads));
  }
  if (!source.has(keys.head_dim) && !defaulted && h.hidden_dim % h.n_heads != 0) {
    return fail("E_HPARAM", fmt::format("{} is {}, which {} heads do not divide",
                                        source.name(keys.hidden_dim), h.hidden_dim, h.n_heads));
  }
  const std::uint32_t head_dim = defaulted ? defaults.head_dim : h.hidden_dim / h.n_heads;
  ORRERY_TRY(h.head_dim, source.integer_or(keys.head_dim, 1, kMaxHeadDim, head_dim));
  ORRERY_TRY(const std::uint32_t v_dim,
             source.integer_or(keys.v_head_dim, 1, kMaxHeadDim, h.head_dim));
  if (v_dim != h.head_dim) {
    return fail("E_HPARAM", fmt::format("{} is {}, keys have {}: unlike sizes are not supported",
                                        source.name(keys.v_head_dim), v_dim, h.head_dim));
  }
  if (h.head_dim == 0 || h.head_dim > kMaxHeadDim) {
    return fail("E_HPARAM",
                fmt::format("a head has {} elements, expected 1 to {}", h.head_dim, kMaxHeadDim));
  }
  return {};
}

// Who quantized the weights of a safetensors folder, as config.json says it; MLX gives bits alone.
Status check_quantization(const Source& source, const Family& family) {
  const Key method{"", "quantization_config/quant_method"}, bits{"", "quantization/bits"};
  if (!source.has(method) && !source.has(bits)) return {};
  ORRERY_TRY(const std::string name, source.text_or(method, "mlx"));
  // Only the experts of gpt-oss are stored so.
  if (name == "mxfp4" && family.expert_layout == ExpertLayout::alternate) return {};
  return fail("E_TENSOR",
              fmt::format("{} is \"{}\": such weights are not read from safetensors; take the "
                          "model's files in BF16 or F16, or a GGUF file of it",
                          source.name(source.has(method) ? method : Key{"", "quantization"}),
                          name.substr(0, kMaxNameChars)));
}

}  // namespace

Status read_common(const Source& source, const Family& family, Hparams& h) {
  ORRERY_TRY_VOID(check_quantization(source, family));
  const CommonKeys& keys = family.keys;
  ORRERY_TRY(h.hidden_dim, source.integer(keys.hidden_dim, 1, kMaxHiddenDim));
  if (family.own_heads) {
    ORRERY_TRY(h.n_heads, source.integer(keys.n_heads, 1, kMaxHeads));
  } else if (family.attends) {
    ORRERY_TRY_VOID(read_heads(source, keys, family.defaults, h));
    h.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(h.head_dim)));
  }
  if (family.attends) {
    ORRERY_TRY(h.ffn_dim, source.integer_or(keys.ffn_dim, 1, kMaxFfnDim, 4 * h.hidden_dim));
  }
  ORRERY_TRY(h.context_length, required(source, keys.context_length, kMaxSaidContext,
                                        family.defaults.context_length));
  h.context_length = std::min(h.context_length, kMaxContext);
  const bool needed = source.is_gguf() || source.has(keys.norm_eps);
  if (needed) {
    ORRERY_TRY(h.norm_eps, source.positive(keys.norm_eps, kMaxEps));
  }
  h.rope_layers.assign(h.n_layers, true);
  h.window_layers.assign(h.n_layers, false);
  h.state_layers.assign(h.n_layers, false);
  return {};
}

Status read_activation(const Source& source, Key key, Hparams& h) {
  if (!source.has(key)) return {};
  ORRERY_TRY(const std::string name, source.text_or(key, ""));
  if (name == "silu" || name == "swish") {
    h.activation = plan::Activation::silu;
  } else if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") {
    h.activation = plan::Activation::gelu_tanh;
  } else if (name == "gelu") {
    h.activation = plan::Activation::gelu_erf;
  } else {
    return fail("E_HPARAM", fmt::format("{} is \"{}\", supported are silu, gelu, gelu_new and "
                                        "gelu_pytorch_tanh",
                                        source.name(key), name.substr(0, kMaxNameChars)));
  }
  return {};
}

Status read_windows(const Source& source, const WindowRule& rule, Hparams& h) {
  const Key window{"attention.sliding_window", "sliding_window"};
  ORRERY_TRY(h.window, source.integer_or(window, 0, kMaxContext, 0));
  ORRERY_TRY(const bool used, source.boolean_or({"", "use_sliding_window"}, !rule.only_if_used));
  if (!used || (rule.only_if_used && source.is_gguf())) h.window = 0;
  if (h.window == 0) return {};

  const Key types{"", "layer_types"};
  ORRERY_TRY(const std::vector<std::string> names, source.texts(types));
  const Key pattern{"attention.sliding_window_pattern", "sliding_window_pattern"};
  std::vector<bool> said;
  for (const std::string& name : names) said.push_back(name == "sliding_attention");
  std::uint32_t period = rule.period;
  if (const Result<std::vector<bool>> flags = source.booleans(pattern); flags && !flags->empty()) {
    said = *flags;
  } else {
    ORRERY_TRY(period, source.integer_or(pattern, 1, kMaxLayers, rule.period));
  }
  if (!said.empty() && said.size() != h.n_layers) {
    return fail("E_HPARAM",
                fmt::format("{} has {} items for {} layers",
                            source.name(names.empty() ? pattern : types), said.size(), h.n_layers));
  }
  // use_sliding_window without a list: the first max_window_layers layers see all.
  ORRERY_TRY(const std::uint32_t first,
             source.integer_or({"", "max_window_layers"}, 0, kMaxSaidContext, 0));
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    const bool by_rule = rule.only_if_used ? i >= first : period == 0 || (i + 1) % period != 0;
    h.window_layers[i] = said.empty() ? by_rule : said[i];
  }
  return {};
}

}  // namespace orrery::model
