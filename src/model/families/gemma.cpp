#include "model/families/gemma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/limits.hpp"

namespace orrery::model {
namespace {
constexpr float kMaxScalar = 1e6F;
constexpr float kMaxTheta = 1e12F;
constexpr float kWindowTheta = 10000.0F;
}  // namespace

Status read_gemma(const Source& source, const GemmaRule& rule, Hparams& h) {
  const bool gguf = source.is_gguf();
  h.activation = plan::Activation::gelu_tanh;
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_activation"}, h));
  h.embedding_scale = std::sqrt(static_cast<float>(h.hidden_dim));
  h.norm_offset = gguf ? 0.0F : 1.0F;  // converters to GGUF add the 1
  const bool is_27b = h.n_layers == rule.layers_27b;
  const std::uint32_t scalar = is_27b ? h.hidden_dim / h.n_heads : h.head_dim;
  ORRERY_TRY(const float query_scalar, source.positive_or({"", "query_pre_attn_scalar"}, kMaxScalar,
                                                          static_cast<float>(scalar)));
  h.attention_scale = 1.0F / std::sqrt(query_scalar);
  ORRERY_TRY(h.attention_softcap,
             source.from_zero_or({"attn_logit_softcapping", "attn_logit_softcapping"}, kMaxScalar,
                                 gguf ? rule.attention_softcap : 0.0F));
  ORRERY_TRY(h.logit_softcap,
             source.from_zero_or({"final_logit_softcapping", "final_logit_softcapping"}, kMaxScalar,
                                 gguf ? rule.logit_softcap : 0.0F));
  return {};
}

Status read_window_theta(const Source& source, Hparams& h) {
  Key key{"rope.freq_base_swa", "rope_parameters/sliding_attention/rope_theta"};
  if (!source.has(key)) key.config = "rope_local_base_freq";
  ORRERY_TRY(h.rope_theta_window, source.positive_or(key, kMaxTheta, kWindowTheta));
  return {};
}

Status read_sharing(const Source& source, Hparams& h) {
  const Key key{"attention.shared_kv_layers", "num_kv_shared_layers"};
  ORRERY_TRY(h.shared_kv_layers, source.integer_or(key, 0, h.n_layers - 1, 0));
  const auto own = h.window_layers.end() - h.shared_kv_layers;
  for (const bool windowed : {false, true}) {
    if (std::find(own, h.window_layers.end(), windowed) == h.window_layers.end()) continue;
    if (std::find(h.window_layers.begin(), own, windowed) != own) continue;
    return fail("E_HPARAM",
                fmt::format("{} is {}, which leaves no {} layer whose keys the others could share",
                            source.name(key), h.shared_kv_layers, windowed ? "window" : "full"));
  }
  return {};
}

Status read_per_layer_inputs(const Source& source, Hparams& h) {
  const Key dim{"embedding_length_per_layer_input", "hidden_size_per_layer_input"};
  ORRERY_TRY(h.per_layer_dim, source.integer_or(dim, 0, kMaxHiddenDim, 0));
  if (std::uint64_t{h.per_layer_dim} * h.n_layers <= kMaxFfnDim) return {};
  return fail("E_HPARAM", fmt::format("{} is {} for {} layers, supported are {} for all together",
                                      source.name(dim), h.per_layer_dim, h.n_layers, kMaxFfnDim));
}

Status settle_per_layer_inputs(const Tensors& tensors, Hparams& h) {
  if (h.per_layer_dim == 0) return {};
  const std::string name = "per_layer_token_embd.weight";
  const std::optional<Tensor> table = tensors.peek(name);
  if (!table || table->rows == 0 || table->rows > kMaxVocab) {
    return fail("E_TENSOR", fmt::format("tensor {} is missing or no table of 1 to {} rows",
                                        tensors.file_name(name), kMaxVocab));
  }
  h.per_layer_vocab = static_cast<std::uint32_t>(table->rows);
  return {};
}

}  // namespace orrery::model
