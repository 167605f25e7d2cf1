// Gemma 3 (arXiv 2503.19786), text: five window layers with their own rotary base to one full
// layer, norms of q and k instead of softcaps.
#include <cmath>

#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

constexpr std::uint32_t kLayers27b = 62;  // the size that does not scale by the size of a head
constexpr std::uint32_t kPeriod = 6;
constexpr float kMaxScalar = 1e6F;
constexpr float kMaxTheta = 1e12F;
constexpr float kWindowTheta = 10000.0F;
constexpr float kFullTheta = 1'000'000.0F;
// transformers' Gemma3TextConfig; the larger checkpoints leave these out.
constexpr ConfigDefaults kDefaults = {
    .n_heads = 8, .n_kv_heads = 4, .head_dim = 256, .context_length = 131'072};

Status read_window_theta(const Source& source, Hparams& h) {
  Key key{"rope.freq_base_swa", "rope_parameters/sliding_attention/rope_theta"};
  if (!source.has(key)) key.config = "rope_local_base_freq";
  ORRERY_TRY(h.rope_theta_window, source.positive_or(key, kMaxTheta, kWindowTheta));
  return {};
}

Status read(const Source& source, Hparams& h) {
  h.activation = plan::Activation::gelu_tanh;
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_activation"}, h));
  h.embedding_scale = std::sqrt(static_cast<float>(h.hidden_dim));
  h.norm_offset = source.is_gguf() ? 0.0F : 1.0F;  // converters to GGUF add the 1
  const std::uint32_t scalar = h.n_layers == kLayers27b ? h.hidden_dim / h.n_heads : h.head_dim;
  ORRERY_TRY(const float query_scalar, source.positive_or({"", "query_pre_attn_scalar"}, kMaxScalar,
                                                          static_cast<float>(scalar)));
  h.attention_scale = 1.0F / std::sqrt(query_scalar);
  ORRERY_TRY(
      h.attention_softcap,
      source.from_zero_or({"attn_logit_softcapping", "attn_logit_softcapping"}, kMaxScalar, 0.0F));
  ORRERY_TRY(h.logit_softcap,
             source.from_zero_or({"final_logit_softcapping", "final_logit_softcapping"}, kMaxScalar,
                                 0.0F));
  ORRERY_TRY_VOID(read_rope(source, h, kFullTheta));
  ORRERY_TRY_VOID(read_window_theta(source, h));
  return read_windows(source, {.period = kPeriod}, h);
}

void forward(Recorder& r) {
  const Hparams& h = r.hparams();
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(r.norm("attn_norm", x)), plan::QkNorm::head);
    const plan::BufferId o =
        r.project("attn_output", attended, h.hidden_dim, h.q_dim(), plan::kNone);
    x = r.norm_add("post_attention_norm", o, x);
    r.tap("attn_residual", x);
    const plan::BufferId gated = r.glu(r.norm("ffn_norm", x));
    const plan::BufferId down = r.project("ffn_down", gated, h.hidden_dim, h.ffn_dim, plan::kNone);
    x = r.norm_add("post_ffw_norm", down, x);
    r.tap("ffn_residual", x);
  }
  r.head(x);
}

constexpr std::string_view kGguf[] = {"gemma3"};
constexpr std::string_view kConfig[] = {"gemma3", "gemma3_text"};
constexpr NamePair kTensorNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

}  // namespace

extern const Family kGemma3;
constexpr Family kGemma3 = {.name = "gemma3",
                            .gguf = kGguf,
                            .config = kConfig,
                            .defaults = kDefaults,
                            .tensor_names = kTensorNames,
                            .read = read,
                            .forward = forward};

}  // namespace orrery::model
