// DeepSeek-V2 (arXiv 2405.04434) and V3 (2412.19437): latent attention, experts after the first
// dense layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/limits.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

// Sizes of a head. Newer GGUF files say those of the cached latent as key_length and value_length,
// and those of a head with the ending _mla.
Status read_heads(const Source& source, Hparams& h) {
  LatentAttention& a = h.latent;
  ORRERY_TRY(a.rank,
             source.integer({"attention.kv_lora_rank", "kv_lora_rank"}, 1, kMaxHeadDim - 2));
  ORRERY_TRY(a.q_rank,
             source.integer_or({"attention.q_lora_rank", "q_lora_rank"}, 0, kMaxHiddenDim, 0));
  const Key rope{"rope.dimension_count", "qk_rope_head_dim"};
  ORRERY_TRY(a.rope_dim, source.integer(rope, 2, kMaxHeadDim - a.rank));
  const bool cached = source.has({"attention.key_length_mla", ""});
  const Key value{cached ? "attention.value_length_mla" : "attention.value_length", "v_head_dim"};
  ORRERY_TRY(a.v_dim, source.integer(value, 1, kMaxHeadDim));
  if (source.is_gguf()) {
    const Key key{cached ? "attention.key_length_mla" : "attention.key_length", ""};
    ORRERY_TRY(const std::uint32_t head, source.integer(key, 1, kMaxHeadDim));
    if (head <= a.rope_dim) {
      return fail("E_HPARAM", fmt::format("{} is {}, which leaves nothing beside the {} elements "
                                          "that rotate ({})",
                                          source.name(key), head, a.rope_dim, source.name(rope)));
    }
    a.nope_dim = head - a.rope_dim;
  } else {
    ORRERY_TRY(a.nope_dim, source.integer({"", "qk_nope_head_dim"}, 1, kMaxHeadDim - a.rope_dim));
  }
  return {};
}

// Only the last elements of a head rotate. With YaRN, scores grow by the square of its factor for
// mscale_all_dim, and cos and sin by that for mscale over that for mscale_all_dim; GGUF has 0.1
// mscale_all_dim as yarn_log_multiplier and takes the latter factor for 1.
Status read_positions(const Source& source, Hparams& h) {
  LatentAttention& a = h.latent;
  h.head_dim = a.rope_dim;
  ORRERY_TRY_VOID(read_rope(source, h));
  h.head_dim = a.nope_dim + a.rope_dim;
  ORRERY_TRY(const bool adjacent, source.boolean_or({"", "rope_interleave"}, true));
  h.rope = adjacent ? plan::RopeStyle::adjacent : plan::RopeStyle::halves;
  double scale = 1.0 / std::sqrt(static_cast<double>(h.head_dim));
  RopeScaling& s = h.rope_scaling;
  if (s.kind != RopeScaling::Kind::none) {
    if (source.is_gguf()) {
      const Key multiplier{"rope.scaling.yarn_log_multiplier", ""};
      ORRERY_TRY(const float value, source.from_zero_or(multiplier, 10.0F, 0.0F));
      s.mscale = s.mscale_all_dim = 10.0F * value;
      if (s.attention_factor == 0.0F) s.attention_factor = 1.0F;
    }
    if (s.mscale_all_dim > 0.0F) {
      const double factor = yarn_mscale(s.factor, s.mscale_all_dim);
      scale *= factor * factor;
    }
  }
  h.attention_scale = static_cast<float>(scale);
  return {};
}

// The router of V2 is a softmax, that of V3 a sigmoid with a bias for the choice (no loss balances
// its experts). config.json says which; GGUF files may not, see settle.
Status read_mixture(const Source& source, Hparams& h) {
  const bool v3 = source.architecture() == "deepseek_v3";
  Experts& e = h.experts;
  ORRERY_TRY_VOID(read_experts(
      source, {.gate = v3 ? plan::Gate::sigmoid : plan::Gate::softmax, .renormalise = v3}, h));
  if (e.count == 0) return {};
  const Key scores{"", "scoring_func"};
  ORRERY_TRY(const std::string name, source.text_or(scores, ""));
  if (name == "sigmoid") e.gate = plan::Gate::sigmoid;
  if (name == "softmax") e.gate = plan::Gate::softmax;
  if (!name.empty() && name != "sigmoid" && name != "softmax") {
    return fail("E_HPARAM", fmt::format("{} is \"{}\", supported are softmax and sigmoid",
                                        source.name(scores), name.substr(0, kMaxNameChars)));
  }
  ORRERY_TRY(const std::string method, source.text_or({"", "topk_method"}, ""));
  if (method == "greedy") e.groups = e.groups_used = 0;
  const Key shared{"expert_shared_count", "n_shared_experts"};
  ORRERY_TRY(const std::uint32_t n, source.integer_or(shared, 0, kMaxFfnDim / e.ffn_dim, 0));
  e.shared_ffn_dim = n * e.ffn_dim;
  ORRERY_TRY(const std::uint32_t step, source.integer_or({"", "moe_layer_freq"}, 1, kMaxLayers, 1));
  for (std::uint32_t i = 0; i < h.n_layers; ++i) e.layers[i] = e.layers[i] && i % step == 0;
  return {};
}

Status read(const Source& source, Hparams& h) {
  h.n_kv_heads = 1;
  ORRERY_TRY_VOID(read_heads(source, h));
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY_VOID(read_positions(source, h));
  return read_mixture(source, h);
}

// A GGUF file of V3 that names no gating function has its bias all the same. (llama.cpp takes
// softmax for every such file, which is not what V3 was trained with.)
Status assume_gate(const Source& source, const Tensors& tensors, Hparams& h) {
  const Key gate{"expert_gating_func", ""}, norm{"expert_weights_norm", ""};
  ORRERY_TRY(const std::uint32_t said, source.integer_or(gate, 0, UINT32_MAX, 0));
  if (said != 0) return {};
  Experts& e = h.experts;
  const auto found = std::ranges::find(e.layers, true);
  if (found == e.layers.end()) return {};
  const auto first = found - e.layers.begin();
  const bool biased = tensors.has(fmt::format("blk.{}.exp_probs_b.bias", first));
  e.gate = biased ? plan::Gate::sigmoid : plan::Gate::softmax;
  if (biased && !source.has(norm)) e.renormalise = true;
  h.notes.push_back(fmt::format(
      "{} is missing: the router is taken for a {}", source.name(gate),
      biased ? "normalised sigmoid, because there is a bias (exp_probs_b), as only DeepSeek-V3 has"
             : "softmax, as in DeepSeek-V2, because there is no bias (exp_probs_b)"));
  return {};
}

Status settle(const Source& source, Tensors& tensors, Hparams& h) {
  Experts& e = h.experts;
  if (e.count > 0 && source.is_gguf()) ORRERY_TRY_VOID(assume_gate(source, tensors, h));
  // V3 chooses groups by the sum of their two best scores, V2 by the best.
  const bool v3 = e.gate == plan::Gate::sigmoid;
  e.group_score = v3 ? plan::GroupScore::best_two : plan::GroupScore::best;
  // Layers behind the last predict further tokens; they are not used.
  ORRERY_TRY(const std::uint32_t more,
             source.integer_or({"", "num_nextn_predict_layers"}, 0, kMaxLayers, 0));
  for (std::uint32_t i = 0; i < more; ++i) tensors.hide_layer(h.n_layers + i);
  return {};
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    x = add_attention(r, r.latent_attention(r.norm("attn_norm", x)), x);
    x = add_glu_or_experts(r, r.norm("ffn_norm", x), x);
  }
  r.head(x);
}

constexpr std::string_view kGguf[] = {"deepseek2"};
constexpr std::string_view kConfig[] = {"deepseek_v2", "deepseek_v3"};
constexpr NamePair kTensorNames[] = {
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj"},
    {"ffn_up_exps", "mlp.experts.*.up_proj"},
    {"ffn_down_exps", "mlp.experts.*.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
};

}  // namespace

extern const Family kDeepseek;
constexpr Family kDeepseek = {.name = "deepseek",
                              .gguf = kGguf,
                              .config = kConfig,
                              .tensor_names = kTensorNames,
                              .own_heads = true,
                              .read = read,
                              .settle = settle,
                              .forward = forward};

}  // namespace orrery::model
