// Gemma 4, text: layers that see all have heads of another size, of which a part rotates; keys may
// be values too; the last layers have none of their own; every layer may have an input of its own,
// and experts beside its feed-forward.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/families/blocks.hpp"
#include "model/families/gemma.hpp"
#include "model/family.hpp"
#include "model/limits.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

constexpr std::uint32_t kPeriod = 6;
constexpr std::uint32_t kHeadDim = 256, kFullHeadDim = 512, kKvHeads = 4;
constexpr float kFullTheta = 1'000'000.0F, kMaxTheta = 1e12F;
constexpr float kRotatedShare = 0.25F;
constexpr float kStill = 1e30F;  // divides the frequency of pairs that do not rotate

Status check_even(std::string_view what, std::uint32_t dim) {
  if (dim % 2 == 0) return {};
  return fail("E_HPARAM", fmt::format("{} rotate, expected an even number of {}", dim, what));
}

// GGUF has a number of key heads for each layer.
Status read_heads_gguf(const Source& source, Hparams& h) {
  const Key heads{"attention.head_count_kv", ""};
  std::vector<std::uint32_t> of_layers(h.n_layers, 0);
  if (const auto list = source.integers(heads, kMaxHeads); list && !list->empty()) {
    of_layers = *list;
  } else {
    ORRERY_TRY(const std::uint32_t all, source.integer(heads, 1, kMaxHeads));
    std::ranges::fill(of_layers, all);
  }
  if (of_layers.size() != h.n_layers) {
    return fail("E_HPARAM", fmt::format("{} has {} items for {} layers", source.name(heads),
                                        of_layers.size(), h.n_layers));
  }
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    std::uint32_t& known = h.window_layers[i] ? h.n_kv_heads : h.full_heads.kv_heads;
    if (known == 0) known = of_layers[i];
    if (known != of_layers[i] || known == 0) {
      return fail("E_HPARAM", fmt::format("{} has {} for layer {}, others of its kind have {}",
                                          source.name(heads), of_layers[i], i, known));
    }
  }
  ORRERY_TRY(h.full_heads.dim, source.integer({"attention.key_length", ""}, 1, kMaxHeadDim));
  ORRERY_TRY(h.head_dim,
             source.integer_or({"attention.key_length_swa", ""}, 1, kMaxHeadDim, h.full_heads.dim));
  ORRERY_TRY(h.full_heads.rope_dim, source.integer_or({"rope.dimension_count", ""}, 1,
                                                      h.full_heads.dim, h.full_heads.dim));
  ORRERY_TRY(h.rope_dim,
             source.integer_or({"rope.dimension_count_swa", ""}, 1, h.head_dim, h.head_dim));
  return {};
}

// Published files have keys of their own for the layers that see all, transformers 5 writes what
// differs from the other layers by number.
Status read_heads_config(const Source& source, Hparams& h) {
  ORRERY_TRY(h.n_kv_heads, source.integer_or({"", "num_key_value_heads"}, 1, kMaxHeads, kKvHeads));
  ORRERY_TRY(h.head_dim, source.integer_or({"", "head_dim"}, 1, kMaxHeadDim, kHeadDim));
  ORRERY_TRY(const bool joint, source.boolean_or({"", "attention_k_eq_v"}, false));
  const auto first = std::ranges::find(h.window_layers, false) - h.window_layers.begin();
  const std::string own_dim = fmt::format("per_layer_config/{}/head_dim", first);
  const std::string own_heads = fmt::format("per_layer_config/{}/num_key_value_heads", first);
  const Key heads{"", joint ? "num_global_key_value_heads" : "num_key_value_heads"};
  HeadShape& full = h.full_heads;
  ORRERY_TRY(full.kv_heads, source.integer_or(heads, 1, kMaxHeads, h.n_kv_heads));
  ORRERY_TRY(full.kv_heads, source.integer_or({"", own_heads}, 1, kMaxHeads, full.kv_heads));
  ORRERY_TRY(full.dim, source.integer_or({"", "global_head_dim"}, 1, kMaxHeadDim, kFullHeadDim));
  ORRERY_TRY(full.dim, source.integer_or({"", own_dim}, 1, kMaxHeadDim, full.dim));
  h.rope_dim = h.head_dim;
  full.rope_dim = full.dim;
  return {};
}

// Pairs of full layers beyond a share of the head stand still; GGUF says it by rope_freqs.
Status read_rotation(const Source& source, Hparams& h) {
  constexpr std::string_view kSection = "rope_parameters/full_attention/";
  const std::string theta = std::string(kSection) + "rope_theta";
  const std::string kind = std::string(kSection) + "rope_type";
  const std::string share = std::string(kSection) + "partial_rotary_factor";
  h.rope = plan::RopeStyle::halves;
  ORRERY_TRY(h.rope_theta, source.positive_or({"rope.freq_base", theta}, kMaxTheta, kFullTheta));
  ORRERY_TRY_VOID(read_window_theta(source, h));
  ORRERY_TRY_VOID(check_even("elements of a head", h.rope_dim | h.full_heads.rope_dim));
  if (source.is_gguf()) return {};
  ORRERY_TRY(const std::string name, source.text_or({"", kind}, "proportional"));
  if (name == "default") return {};
  if (name != "proportional") {
    return fail("E_HPARAM", fmt::format("{} is \"{}\", supported are default and proportional",
                                        source.name({"", kind}), name.substr(0, kMaxNameChars)));
  }
  ORRERY_TRY(const float part, source.positive_or({"", share}, 1.0F, kRotatedShare));
  RopeScaling& s = h.rope_scaling;
  s.kind = RopeScaling::Kind::factors;
  s.attention_factor = 1.0F;
  const auto pairs = static_cast<std::uint32_t>(part * static_cast<float>(h.full_heads.dim) / 2);
  s.long_factors.assign(h.full_heads.dim / 2, kStill);
  std::fill_n(s.long_factors.begin(), pairs, 1.0F);
  s.short_factors = s.long_factors;
  return {};
}

Status read_mixture(const Source& source, Hparams& h) {
  Experts& e = h.experts;
  e.layers.assign(h.n_layers, false);
  ORRERY_TRY(const bool used, source.boolean_or({"", "enable_moe_block"}, source.is_gguf()));
  const Key count{"expert_count", "num_experts"};
  if (!used || !source.has(count)) return {};
  ORRERY_TRY(e.count, source.integer(count, 0, kMaxExperts));
  if (e.count == 0) return {};
  ORRERY_TRY(e.used, source.integer({"expert_used_count", "top_k_experts"}, 1, e.count));
  ORRERY_TRY(e.ffn_dim, source.integer({"expert_feed_forward_length", "moe_intermediate_size"}, 1,
                                       kMaxFfnDim));
  e.gate = plan::Gate::softmax_used;
  e.router_scale = 1.0F / std::sqrt(static_cast<float>(h.hidden_dim));
  e.layers.assign(h.n_layers, true);
  return {};
}

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(read_windows(source, {.period = kPeriod}, h));
  ORRERY_TRY_VOID(source.is_gguf() ? read_heads_gguf(source, h) : read_heads_config(source, h));
  if (h.n_kv_heads == 0) h.n_kv_heads = h.full_heads.kv_heads;  // no layer has a window
  for (const std::uint32_t kv_heads : {h.n_kv_heads, h.full_heads.kv_heads}) {
    if (kv_heads != 0 && h.n_heads % kv_heads == 0) continue;
    return fail("E_HPARAM",
                fmt::format("{} key heads do not divide the {} heads", kv_heads, h.n_heads));
  }
  ORRERY_TRY_VOID(read_gemma(source, {}, h));
  h.norm_offset = 0.0F;
  h.attention_scale = 1.0F;
  const Key both_ways{"", "use_bidirectional_attention"};
  if (source.has(both_ways)) {
    ORRERY_TRY(const std::string which, source.text_or(both_ways, ""));
    if (which == "all") return fail("E_HPARAM", source.name(both_ways) + " is not supported");
  }
  ORRERY_TRY_VOID(read_rotation(source, h));
  ORRERY_TRY_VOID(read_sharing(source, h));
  ORRERY_TRY_VOID(read_per_layer_inputs(source, h));
  return read_mixture(source, h);
}

// Widths that GGUF has for each layer are those of the tensors.
Status settle(const Source&, Tensors& tensors, Hparams& h) {
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    const std::optional<Tensor> gate = tensors.peek(fmt::format("blk.{}.ffn_gate.weight", i));
    if (!gate || gate->rows == 0 || gate->rows > kMaxFfnDim) continue;  // the recording tells
    std::uint32_t& width = h.shares_kv(i) ? h.sharing_ffn_dim : h.ffn_dim;
    if (width == 0 || i == 0) width = static_cast<std::uint32_t>(gate->rows);
  }
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    const std::string name = fmt::format("blk.{}.layer_output_scale.weight", i);
    if (!tensors.has(name)) continue;
    ORRERY_TRY(const std::vector<float> scale, tensors.floats(name, 1));
    h.layer_scales.resize(h.n_layers, 1.0F);
    h.layer_scales[i] = scale[0];
  }
  return settle_per_layer_inputs(tensors, h);
}

// The feed-forward, and with experts their sum, before the last norm.
plan::BufferId feed_forward(Recorder& r, plan::BufferId x) {
  const Hparams& h = r.hparams();
  const plan::BufferId gated = r.glu(r.norm("ffn_norm", x));
  const plan::BufferId dense = r.project("ffn_down", gated, h.hidden_dim, r.ffn_dim(), plan::kNone);
  if (!r.has_experts()) return dense;
  const plan::BufferId seen = r.router_norm(x);
  const plan::BufferId mixed = r.mixture(r.norm("pre_ffw_norm_2", x), plan::kNone, seen);
  return r.norm_add("post_ffw_norm_2", mixed, r.norm("post_ffw_norm_1", dense));
}

void forward(Recorder& r) {
  const Hparams& h = r.hparams();
  plan::BufferId x = r.embed();
  const bool own_inputs = h.per_layer_dim > 0;
  const plan::BufferId inputs = own_inputs ? r.per_layer_inputs(x) : plan::kNone;
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    r.layer(i);
    const plan::BufferId normed = r.norm("attn_norm", x);
    x = add_normed_attention(r, r.attention(r.qkv_unit_values(normed), plan::QkNorm::head), x);
    plan::BufferId branch = feed_forward(r, x);
    if (own_inputs) {
      x = r.norm_add("post_ffw_norm", branch, x);
      branch = r.norm("post_norm", r.per_layer_branch(x, inputs));
    } else {
      branch = r.norm("post_ffw_norm", branch);
    }
    x = r.add_scaled("ffn_residual", branch, x, h.layer_scales.empty() ? 1.0F : h.layer_scales[i]);
    r.tap("ffn_residual", x);
  }
  r.head(x);
}

constexpr std::string_view kGguf[] = {"gemma4"};
constexpr std::string_view kConfig[] = {"gemma4", "gemma4_text"};
// GGUF has a width for each layer: settle() takes those of the tensors.
constexpr CommonKeys kKeys = {.ffn_dim = {"", "intermediate_size"}};
constexpr std::string_view kIgnored[] = {"model.audio_tower.", "model.embed_vision.",
                                         "model.embed_audio."};
constexpr NamePair kTensorNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
    {"layer_output_scale.weight", "layer_scalar"},
    {"ffn_gate_inp", "router.proj"},
    {"ffn_gate_inp.scale", "router.scale"},
    {"ffn_down_exps.scale", "router.per_expert_scale"},
    {"ffn_gate_up_exps.weight", "experts.gate_up_proj"},
    {"ffn_down_exps.weight", "experts.down_proj"},
    {"per_layer_token_embd", "embed_tokens_per_layer"},
    {"per_layer_model_proj", "per_layer_model_projection"},
    {"per_layer_proj_norm", "per_layer_projection_norm"},
    {"inp_gate", "per_layer_input_gate"},
    {"proj", "per_layer_projection"},
    {"post_norm", "post_per_layer_input_norm"},
};

}  // namespace

extern const Family kGemma4;
constexpr Family kGemma4 = {.name = "gemma4",
                            .gguf = kGguf,
                            .config = kConfig,
                            .keys = kKeys,
                            .tensor_names = kTensorNames,
                            .own_heads = true,
                            .ignored = kIgnored,
                            .read = read,
                            .settle = settle,
                            .forward = forward};

}  // namespace orrery::model
