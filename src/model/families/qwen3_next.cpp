// Qwen3-Next: three of four layers are Gated DeltaNets (arXiv 2412.06464), every fourth attends
// with a gate on its result; all have experts.
#include <fmt/format.h>

#include <array>

#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/limits.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

constexpr std::uint32_t kAttentionPeriod = 4;

// Heads of the recurrence: GGUF gives the number of value heads and the width of all of them.
Status read_heads_of_state(const Source& source, Hparams& h) {
  StateShape& s = h.state;
  const Key heads{"ssm.time_step_rank", "linear_num_value_heads"};
  const Key groups{"ssm.group_count", "linear_num_key_heads"};
  ORRERY_TRY(s.conv_taps,
             source.integer({"ssm.conv_kernel", "linear_conv_kernel_dim"}, 2, kMaxConvTaps));
  ORRERY_TRY(s.heads, source.integer(heads, 1, kMaxHeads));
  ORRERY_TRY(s.key_heads, source.integer(groups, 1, kMaxHeads));
  ORRERY_TRY(s.k_dim, source.integer({"ssm.state_size", "linear_key_head_dim"}, 1, kMaxStateDim));
  if (source.is_gguf()) {
    const Key inner{"ssm.inner_size", ""};
    ORRERY_TRY(const std::uint32_t width, source.integer(inner, 1, kMaxFfnDim));
    if (width % s.heads != 0 || width / s.heads > kMaxStateDim) {
      return fail("E_HPARAM", fmt::format("{} is {}, expected {} heads of 1 to {}",
                                          source.name(inner), width, s.heads, kMaxStateDim));
    }
    s.v_dim = width / s.heads;
  } else {
    ORRERY_TRY(s.v_dim, source.integer({"", "linear_value_head_dim"}, 1, kMaxStateDim));
  }
  if (s.heads % s.key_heads != 0) {
    return fail("E_HPARAM", fmt::format("{} is {}, no divisor of the {} value heads",
                                        source.name(groups), s.key_heads, s.heads));
  }
  s.conv_dim = 2 * s.key_dim() + s.value_dim();
  return {};
}

// Which layers have a state: a list, or all but every so-manieth.
Status read_layers(const Source& source, Hparams& h) {
  const Key types{"", "layer_types"}, recurrent{"attention.recurrent_layers", ""};
  ORRERY_TRY(const std::vector<std::string> names, source.texts(types));
  ORRERY_TRY(h.state_layers, source.booleans(recurrent));
  for (const std::string& name : names) {
    h.state_layers.push_back(name == "linear_attention");
    if (name == "linear_attention" || name == "full_attention") continue;
    return fail("E_HPARAM",
                fmt::format("{} has \"{}\", expected linear_attention or full_attention",
                            source.name(types), name.substr(0, kMaxNameChars)));
  }
  const Key interval{"full_attention_interval", "full_attention_interval"};
  ORRERY_TRY(const std::uint32_t period,
             source.integer_or(interval, 1, kMaxLayers, kAttentionPeriod));
  if (h.state_layers.empty()) {
    for (std::uint32_t i = 0; i < h.n_layers; ++i) h.state_layers.push_back((i + 1) % period != 0);
  }
  if (h.state_layers.size() == h.n_layers) return {};
  return fail("E_HPARAM", fmt::format("{} has {} items for {} layers",
                                      source.name(names.empty() ? recurrent : types),
                                      h.state_layers.size(), h.n_layers));
}

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY_VOID(read_rope(source, h));
  ORRERY_TRY_VOID(read_heads_of_state(source, h));
  ORRERY_TRY_VOID(read_layers(source, h));
  // safetensors holds w - 1 of every norm but those of the recurrence.
  h.norm_offset = source.is_gguf() ? 0.0F : 1.0F;
  ORRERY_TRY_VOID(read_experts(source, {.renormalise = true}, h));
  h.experts.shared_gate = h.experts.shared_ffn_dim > 0;
  return {};
}

// [q | k | v] of all heads, and z. One tensor of safetensors has the four for each key head by
// turns.
struct DeltaInputs {
  plan::BufferId qkv, z;
};
DeltaInputs delta_inputs(Recorder& r, plan::BufferId x) {
  const Hparams& h = r.hparams();
  const StateShape& s = h.state;
  if (r.has("attn_qkv")) {
    const auto out = r.together({{"attn_qkv", s.conv_dim}, {"attn_gate", s.value_dim()}}, x);
    return {out[0], out[1]};
  }
  const std::uint32_t values = s.value_dim() / s.key_heads;  // of one key head
  const auto joint = r.together({{"ssm_in", s.conv_dim + s.value_dim()}}, x)[0];
  const auto parts = r.split("qkv", "z", joint, s.key_heads, {s.k_dim, s.k_dim, values, values});
  return {parts.first, parts.last};
}

// x + out (norm(delta(conv([q k v]), beta, dt)) * silu(z))
plan::BufferId add_delta_net(Recorder& r, plan::BufferId normed, plan::BufferId residual) {
  const StateShape& s = r.hparams().state;
  const DeltaInputs in = delta_inputs(r, normed);
  const auto ba = r.together({{"ssm_ba", 2 * s.heads}}, normed)[0];
  const std::uint32_t heads = s.heads / s.key_heads;  // of one key head
  const auto [beta, dt] = r.split("beta", "dt", ba, s.key_heads, {heads, heads});
  plan::ConvOptions silu;
  silu.activation = plan::Activation::silu;
  const plan::BufferId y = r.delta_rule(r.convolve("ssm_conv1d", in.qkv, silu), beta, dt);
  const plan::BufferId heads_normed = r.norm_parts("ssm_norm", y, s.heads, s.v_dim);
  const plan::BufferId gated = r.mul("gated", in.z, heads_normed, plan::Activation::silu);
  const plan::BufferId x =
      r.project("ssm_out", gated, r.hparams().hidden_dim, s.value_dim(), residual);
  r.tap("attn_residual", x);
  return x;
}

// attn_q holds q and a gate for each head by turns.
plan::BufferId add_gated_attention(Recorder& r, plan::BufferId normed, plan::BufferId residual) {
  const Hparams& h = r.hparams();
  const auto out = r.together(
      {{"attn_q", 2 * h.q_dim()}, {"attn_k", h.kv_dim()}, {"attn_v", h.kv_dim()}}, normed);
  const auto [q, gate] = r.split("q", "gate", out[0], h.n_heads, {h.head_dim, h.head_dim});
  const plan::BufferId attended = r.attention({q, out[1], out[2]}, plan::QkNorm::head);
  return add_attention(r, r.mul("gated", gate, attended, plan::Activation::sigmoid), residual);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId normed = r.norm("attn_norm", x);
    x = r.hparams().state_layers[i] ? add_delta_net(r, normed, x)
                                    : add_gated_attention(r, normed, x);
    x = add_glu_or_experts(r, r.norm("post_attention_norm", x), x);
  }
  r.head(x);
}

constexpr std::string_view kGguf[] = {"qwen3next"};
constexpr std::string_view kConfig[] = {"qwen3_next"};
constexpr NamePair kTensorNames[] = {{"post_attention_norm", "post_attention_layernorm"},
                                     {"ssm_in", "linear_attn.in_proj_qkvz"},
                                     {"ssm_ba", "linear_attn.in_proj_ba"},
                                     {"ssm_conv1d", "linear_attn.conv1d"},
                                     {"ssm_dt.bias", "linear_attn.dt_bias"},
                                     {"ssm_a", "linear_attn.A_log"},
                                     {"ssm_norm", "linear_attn.norm"},
                                     {"ssm_out", "linear_attn.out_proj"},
                                     {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
                                     {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                     {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                     {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};

}  // namespace

extern const Family kQwen3Next;
constexpr Family kQwen3Next = {.name = "qwen3next",
                               .gguf = kGguf,
                               .config = kConfig,
                               .tensor_names = kTensorNames,
                               .read = read,
                               .forward = forward};

}  // namespace orrery::model
