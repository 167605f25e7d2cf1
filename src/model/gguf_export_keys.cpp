#include "model/gguf_export_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model/family.hpp"
#include "model/pooling.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

using Kind = RopeScaling::Kind;
using storage::MetaArray;

}  // namespace

bool is_near(float a, float b) {
  constexpr float kRounding = 1e-6F;
  return std::abs(a - b) <= kRounding * std::max(std::abs(a), std::abs(b));
}

void ParameterKeys::add(std::string_view key, storage::MetaValue value) {
  if (key.empty()) return;
  image_.metadata.insert(fmt::format("{}.{}", architecture_, key), std::move(value));
}

void ParameterKeys::add_numbers(std::string_view key, const std::vector<std::uint32_t>& values) {
  MetaArray list{.kind = MetaArray::Kind::integers};
  list.integers.assign(values.begin(), values.end());
  add(key, std::move(list));
}

void ParameterKeys::add_flags(std::string_view key, const std::vector<bool>& values) {
  MetaArray list{.kind = MetaArray::Kind::bools};
  for (const bool value : values) list.bools.push_back(value ? 1 : 0);
  add(key, std::move(list));
}

void ParameterKeys::add_known() {
  const CommonKeys& keys = source_.family().keys;
  image_.metadata.insert("general.architecture", architecture_);
  add_number(keys.n_layers.gguf, h_.n_layers);
  add_number(keys.hidden_dim.gguf, h_.hidden_dim);
  add_number(keys.context_length.gguf, h_.context_length);
  add_float(keys.norm_eps.gguf, h_.norm_eps);
  add_number("vocab_size", h_.vocab_size);
  if (source_.family().attends) add_heads();
  if (h_.experts.count > 0) add_experts();
  if (h_.latent.rank > 0 || h_.experts.count > 0) add_expert_layers();
  if (h_.state.conv_taps > 0) add_state();
  if (h_.per_layer_dim > 0 || h_.full_heads.kv_heads > 0) add_layer_inputs();
  if (h_.rope != plan::RopeStyle::none && h_.rope_dim > 0) add_rope();
  if (!h_.causal || !source_.checkpoint().sentence_modules().empty()) add_pooling();
  if (h_.window > 0) add_number("attention.sliding_window", said_window());
  if (h_.attention_softcap > 0.0F) add_float("attn_logit_softcapping", h_.attention_softcap);
  if (h_.logit_softcap > 0.0F) add_float("final_logit_softcapping", h_.logit_softcap);
  if (h_.family == "cohere") add_float("logit_scale", h_.logit_scale);
}

void ParameterKeys::add_heads() {
  const CommonKeys& keys = source_.family().keys;
  add_number(keys.n_heads.gguf, h_.n_heads);
  add_number(keys.ffn_dim.gguf, h_.ffn_dim);
  if (h_.latent.rank > 0) return add_latent();
  if (h_.full_heads.kv_heads > 0) return add_heads_of_layers();
  add_number(keys.n_kv_heads.gguf, h_.n_kv_heads);
  add_number(keys.head_dim.gguf, h_.head_dim);
  add_number(keys.v_head_dim.gguf, h_.head_dim);
}

// The cache has one head, the latents with the part of the key that rotates.
void ParameterKeys::add_latent() {
  const LatentAttention& a = h_.latent;
  add_number("attention.head_count_kv", 1);
  add_number("attention.key_length", a.rank + a.rope_dim);
  add_number("attention.value_length", a.rank);
  add_number("attention.key_length_mla", a.nope_dim + a.rope_dim);
  add_number("attention.value_length_mla", a.v_dim);
  add_number("attention.kv_lora_rank", a.rank);
  if (a.q_rank > 0) add_number("attention.q_lora_rank", a.q_rank);
}

// Gemma 4: what differs between layers is a list.
void ParameterKeys::add_heads_of_layers() {
  std::vector<std::uint32_t> kv_heads, widths;
  for (std::uint32_t i = 0; i < h_.n_layers; ++i) {
    kv_heads.push_back(h_.heads_of(i).kv_heads);
    const bool shares = h_.sharing_ffn_dim > 0 && h_.shares_kv(i);
    widths.push_back(shares ? h_.sharing_ffn_dim : h_.ffn_dim);
  }
  add_numbers("attention.head_count_kv", kv_heads);
  add_numbers("feed_forward_length", widths);
  add_number("attention.key_length", h_.full_heads.dim);
  add_number("attention.value_length", h_.full_heads.dim);
  add_number("attention.key_length_swa", h_.head_dim);
  add_number("attention.value_length_swa", h_.head_dim);
  add_number("rope.dimension_count", h_.full_heads.rope_dim);
  add_number("rope.dimension_count_swa", h_.rope_dim);
}

void ParameterKeys::add_experts() {
  const Experts& e = h_.experts;
  add_number("expert_count", e.count);
  add_number("expert_used_count", e.used);
  add_number("expert_feed_forward_length", e.ffn_dim);
  if (h_.latent.rank > 0) {
    add_number("expert_shared_count", e.shared_ffn_dim / e.ffn_dim);
    add_number("expert_gating_func", e.gate == plan::Gate::sigmoid ? 2 : 1);
    add_float("expert_weights_scale", e.scale);
  } else if (e.shared_ffn_dim > 0) {
    add_number("expert_shared_feed_forward_length", e.shared_ffn_dim);
  }
}

// Which layers have experts, where the family says it by a number.
void ParameterKeys::add_expert_layers() {
  const std::vector<bool>& layers = h_.experts.layers;
  const auto first = std::ranges::find(layers, true);
  const auto index = static_cast<std::uint32_t>(first - layers.begin());
  if (h_.latent.rank > 0) add_number("leading_dense_block_count", index);
  if (first == layers.end()) return;
  if (h_.family == "llama4") add_number("interleave_moe_layer_step", index + 1);
  if (h_.family == "nomic-bert-moe") {
    const auto step = std::find(first + 1, layers.end(), true) - first;
    add_number("moe_every_n_layers", std::max(2U, static_cast<std::uint32_t>(step)));
  }
}

void ParameterKeys::add_state() {
  const StateShape& s = h_.state;
  if (s.heads == 0) {  // layers without keys are those with a state
    std::vector<std::uint32_t> kv_heads;
    for (const bool keeps : h_.state_layers) kv_heads.push_back(keeps ? 0 : h_.n_kv_heads);
    add_numbers("attention.head_count_kv", kv_heads);
    return add_number("shortconv.l_cache", s.conv_taps);
  }
  add_number("ssm.conv_kernel", s.conv_taps);
  add_number("ssm.inner_size", s.value_dim());
  add_number("ssm.state_size", s.k_dim);
  add_number("ssm.time_step_rank", s.heads);
  add_number("ssm.group_count", s.key_heads);
  if (!source_.family().attends) return;
  add_flags("attention.recurrent_layers", h_.state_layers);
  const auto attending = std::ranges::find(h_.state_layers, false) - h_.state_layers.begin();
  if (attending < std::ssize(h_.state_layers)) {
    add_number("full_attention_interval", static_cast<std::uint32_t>(attending) + 1);
  }
}

// Gemma 3n and 4.
void ParameterKeys::add_layer_inputs() {
  add_number("embedding_length_per_layer_input", h_.per_layer_dim);
  add_number("attention.shared_kv_layers", h_.shared_kv_layers);
  add_window_layers();
  if (h_.altup.streams > 0) {
    add_number("altup.num_inputs", h_.altup.streams);
    add_number("altup.active_idx", h_.altup.active);
  }
  if (h_.sparsity.empty()) return;
  MetaArray deviations{.kind = MetaArray::Kind::floats};
  deviations.floats = h_.sparsity;
  add("activation_sparsity_scale", std::move(deviations));
}

// Divisors of the frequencies, as a tensor.
void ParameterKeys::add_factors(std::string_view tensor, std::vector<float> factors) {
  const std::uint64_t n = factors.size();
  const auto& kept = image_.values.emplace_back(std::move(factors));
  image_.tensors.push_back({.as = {std::string(tensor), DType::f32, 1, {n, 1, 1, 1}},
                            .data = reinterpret_cast<const std::byte*>(kept.data())});
}

void ParameterKeys::add_rope() {
  add_number("rope.dimension_count", h_.rope_dim);
  add_float("rope.freq_base", h_.rope_theta);
  if (h_.rope_theta_window) add_float("rope.freq_base_swa", *h_.rope_theta_window);
  if (h_.rope_scaling.kind != Kind::none) add_rope_scaling();
}

void ParameterKeys::add_rope_scaling() {
  const RopeScaling& s = h_.rope_scaling;
  if (s.kind == Kind::llama3) {  // the converters' way: the effect as a tensor
    const auto plain = rope_frequencies({}, h_.rope_theta, h_.rope_dim, h_.context_length);
    const auto scaled = rope_frequencies(s, h_.rope_theta, h_.rope_dim, h_.context_length);
    std::vector<float> factors(plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) factors[i] = plain[i] / scaled[i];
    return add_factors("rope_freqs.weight", std::move(factors));
  }
  if (s.kind == Kind::factors) return add_rope_factors();
  add("rope.scaling.type", std::string_view(s.kind == Kind::yarn ? "yarn" : "linear"));
  add_float("rope.scaling.factor", s.factor);
  if (s.kind != Kind::yarn) return;
  add_number("rope.scaling.original_context_length", s.original_context);
  add_float("rope.scaling.yarn_beta_fast", s.beta_fast);
  add_float("rope.scaling.yarn_beta_slow", s.beta_slow);
  if (h_.latent.rank > 0) {  // of scores; that of cos and sin is 1 where no key says it
    constexpr float kPerLog = 0.1F;
    add_float("rope.scaling.yarn_log_multiplier", kPerLog * s.mscale_all_dim);
    const float factor = rope_mscale(s, h_.context_length);
    if (factor != 1.0F) add_float("rope.scaling.attn_factor", factor);
  } else if (s.attention_factor > 0.0F) {
    add_float("rope.scaling.attn_factor", s.attention_factor);
  }
}

void ParameterKeys::add_rope_factors() {
  const RopeScaling& s = h_.rope_scaling;
  const float factor = rope_mscale(s, h_.context_length);
  if (s.short_factors == s.long_factors && factor == 1.0F) {  // Gemma 4's pairs that stand still
    return add_factors("rope_freqs.weight", s.long_factors);
  }
  add("rope.scaling.type", std::string_view("longrope"));
  add_number("rope.scaling.original_context_length", s.original_context);
  add_float("rope.scaling.attn_factor", factor);
  add_factors("rope_factors_short.weight", s.short_factors);
  add_factors("rope_factors_long.weight", s.long_factors);
}

void ParameterKeys::add_pooling() {
  if (!h_.causal) add("attention.causal", false);
  add_number("pooling_type", gguf_pooling(h_));
  if (h_.text_tokens > 0) {
    image_.metadata.insert(kTextTokensKey, std::uint64_t{h_.text_tokens});
  }
  if (const auto types = source_.tensors().peek("token_types.weight")) {
    image_.metadata.insert("tokenizer.ggml.token_type_count", types->rows);
  }
  if (h_.ranks) {
    return add("classifier.output_labels",
               MetaArray{.kind = MetaArray::Kind::strings, .strings = {"LABEL_0"}});
  }
  for (std::size_t i = 0; i < h_.dense.size(); ++i) {
    add_number(fmt::format("dense_{}_feat_in", i + 2), h_.dense[i].cols);
    add_number(fmt::format("dense_{}_feat_out", i + 2), h_.dense[i].rows);
  }
}

bool ParameterKeys::add_missing(const Hparams& back) {
  const std::size_t before = image_.metadata.all().size();
  add_missing_scales(back);
  if (h_.experts.count > 0) add_missing_experts(back.experts);
  add_missing_windows(back);
  return image_.metadata.all().size() != before;
}

void ParameterKeys::add_missing_scales(const Hparams& back) {
  const auto add_scalar = [&](std::string_view key, float Hparams::* field) {
    if (!is_near(back.*field, h_.*field)) add_float(key, h_.*field);
  };
  add_scalar("attn_logit_softcapping", &Hparams::attention_softcap);
  add_scalar("final_logit_softcapping", &Hparams::logit_softcap);
  add_scalar("embedding_scale", &Hparams::embedding_scale);
  add_scalar("residual_scale", &Hparams::residual_scale);
  add_scalar("attention.scale", &Hparams::attention_scale);
  if (!is_near(back.logit_scale, h_.logit_scale)) add_float("logit_scale", 1.0F / h_.logit_scale);
  if (back.query_growth == h_.query_growth) return;
  add_float("attention.temperature_scale", h_.query_growth.rate);
  add_number("attention.temperature_length", h_.query_growth.step);
}

void ParameterKeys::add_missing_experts(const Experts& back) {
  const Experts& e = h_.experts;
  if (e.gate != back.gate) {
    const std::uint32_t number = e.gate == plan::Gate::softmax   ? 1
                                 : e.gate == plan::Gate::sigmoid ? 2
                                                                 : 3;
    add_number("expert_gating_func", number);
  }
  if (e.renormalise != back.renormalise) add("expert_weights_norm", e.renormalise);
  if (e.scale != back.scale) add_float("expert_weights_scale", e.scale);
  if (e.groups != back.groups) add_number("expert_group_count", e.groups);
  if (e.groups_used != back.groups_used) add_number("expert_group_used_count", e.groups_used);
  if (e.layers == back.layers) return;
  const auto dense = std::ranges::find(e.layers, true) - e.layers.begin();
  add_number("leading_dense_block_count", static_cast<std::uint32_t>(dense));
}

// Encoders see half of the window that files say to each side, and the token itself between them.
std::uint32_t ParameterKeys::said_window() const {
  return h_.causal || h_.window == 0 ? h_.window : 2 * (h_.window - 1);
}

void ParameterKeys::add_missing_windows(const Hparams& back) {
  if (back.window != h_.window) {
    add_number("attention.sliding_window", said_window());
  } else if (back.window_layers != h_.window_layers) {
    add_window_layers();
  }
}

void ParameterKeys::add_window_layers() {
  add_flags("attention.sliding_window_pattern", h_.window_layers);
}

}  // namespace orrery::model
