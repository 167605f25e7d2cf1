#include "model/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.hpp"
#include "model/rope.hpp"

namespace orrery::model {

using plan::BufferId;
using plan::kNone;
using plan::WeightId;

Recorder::Recorder(const Hparams& hparams, const RecordOptions& options, Tensors& tensors)
    : h_(hparams),
      options_(options),
      tensors_(tensors),
      builder_(hparams.family, options.phase, options.capacity, options.deterministic,
               options.experts_as_decode) {
  place_layers();
}

// A window that the context cannot fill masks nothing.
std::uint32_t Recorder::window_of(std::uint32_t layer) const {
  const bool windowed = h_.window != 0 && h_.window_layers[layer];
  return windowed && h_.window < options_.context_length ? h_.window : 0;
}

// On an error a type that fits, so that recording goes on.
DType Recorder::cache_type(DType wanted) {
  const DTypeInfo& info = dtype_info(wanted);
  std::string wrong;
  if (h_.latent.rank > 0 && info.is_quantized) {
    wrong = fmt::format("the latents of this model are not cached as {}", info.name);
  } else if (h_.head_dim % info.block_len != 0 || h_.full_heads.dim % info.block_len != 0) {
    wrong = fmt::format(
        "a cache of {} needs heads of a multiple of {} values and those of this model have {}",
        info.name, info.block_len, h_.head_dim);
  } else {
    return wanted;
  }
  if (!error_) error_ = Error{"E_UNSUPPORTED", wrong + ": choose f16, bf16 or f32"};
  return DType::f16;
}

plan::CacheGroup Recorder::cache_group_of(std::uint32_t layer) {
  plan::CacheGroup group;
  if (h_.state_layers[layer]) {
    group.kind = plan::CacheKind::state;
    group.kv_heads = h_.state.heads;
    group.k_dim = h_.state.k_dim;
    group.v_dim = h_.state.v_dim;
    group.k_type = group.v_type = DType::f32;
    group.conv_rows = h_.state.conv_taps - 1;
    group.conv_dim = h_.state.conv_dim;
    return group;
  }
  group.window = window_of(layer);
  group.kind = group.window == 0 ? plan::CacheKind::full : plan::CacheKind::window;
  const HeadShape heads = h_.heads_of(layer);
  group.kv_heads = heads.kv_heads;
  group.k_dim = group.v_dim = heads.dim;
  group.k_type = group.v_type = cache_type(options_.k_type);
  if (h_.latent.rank > 0) {
    group.kv_heads = 1;
    group.k_dim = h_.latent.rank + h_.latent.rope_dim;
    group.v_dim = h_.latent.rank;
    group.v_in_k = true;
  } else {
    group.v_type = cache_type(options_.v_type);
  }
  return group;
}

// One cache group for all layers that are alike in what they keep, in order of appearance.
void Recorder::place_layers() {
  std::vector<plan::CacheGroup> kinds;  // with no layers yet
  std::vector<std::uint32_t> counts;    // layers of the groups
  for (std::uint32_t i = 0; i < h_.n_layers; ++i) {
    if (h_.shares_kv(i)) {
      std::uint32_t source = h_.n_layers - h_.shared_kv_layers - 1;
      while (source > 0 && h_.window_layers[source] != h_.window_layers[i]) --source;
      places_.push_back(places_[source]);
      continue;
    }
    const plan::CacheGroup kind = cache_group_of(i);
    const auto found = std::ranges::find(kinds, kind);
    const auto group = static_cast<std::size_t>(found - kinds.begin());
    if (found == kinds.end()) {
      kinds.push_back(kind);
      counts.push_back(0);
    }
    places_.push_back({static_cast<std::int16_t>(group), static_cast<std::int16_t>(counts[group]++),
                       kind.window});
  }
  for (std::size_t g = 0; g < kinds.size(); ++g) {
    kinds[g].layers = counts[g];
    builder_.cache_group(kinds[g]);
  }
}

void Recorder::layer(std::uint32_t i) {
  layer_ = static_cast<std::int32_t>(i);
  builder_.set_layer(static_cast<std::int16_t>(i));
}

std::string Recorder::full_name(std::string_view stem, std::string_view ending) const {
  const std::string_view dot = ending.empty() ? "" : ".";
  if (layer_ < 0) return fmt::format("{}{}{}", stem, dot, ending);
  return fmt::format("blk.{}.{}{}{}", layer_, stem, dot, ending);
}

// On an error the weight has the shape that was asked for, so that recording goes on.
WeightId Recorder::add(const std::string& name, Result<Tensor> tensor, std::uint32_t begin,
                       std::uint32_t rows, std::uint32_t cols) {
  if (!tensor && !error_) error_ = tensor.error();
  return builder_.weight({name, tensor ? tensor->dtype : DType::f32, rows, cols, begin,
                          tensor ? tensor->layout : Layout::file});
}

WeightId Recorder::matrix(std::string_view stem, std::uint32_t rows, std::uint32_t cols) {
  return slice(stem, rows, 0, rows, cols);
}

WeightId Recorder::slice(std::string_view stem, std::uint32_t total, std::uint32_t begin,
                         std::uint32_t rows, std::uint32_t cols) {
  const std::string name = full_name(stem, "weight");
  return add(name, tensors_.matrix(name, total, cols), begin, rows, cols);
}

WeightId Recorder::vector(std::string_view stem, std::uint32_t n) {
  const std::string name = full_name(stem, "weight");
  return add(name, tensors_.vector(name, n), 0, 1, n);
}

WeightId Recorder::bias(std::string_view stem, std::uint32_t n) {
  return bias_slice(stem, n, 0, n);
}

WeightId Recorder::bias_slice(std::string_view stem, std::uint32_t total, std::uint32_t begin,
                              std::uint32_t n) {
  ORRERY_CHECK(begin % n == 0);
  const std::string name = full_name(stem, "bias");
  return add(name, tensors_.vector(name, total), begin / n, 1, n);
}

bool Recorder::has_bias(std::string_view stem) const {
  return tensors_.has(full_name(stem, "bias"));
}

BufferId Recorder::embed_rows(WeightId positions, WeightId types) {
  embedding_ =
      add("token_embd.weight", tensors_.table("token_embd.weight", h_.vocab_size, h_.hidden_dim), 0,
          h_.vocab_size, h_.hidden_dim);
  const BufferId x = builder_.embed(embedding_, positions, h_.embedding_scale, types);
  tap("embed", x);
  return x;
}

// A row for each position of the context.
WeightId Recorder::positions() {
  if (options_.context_length > h_.context_length && !error_) {
    error_ = Error{"E_CONTEXT", fmt::format("a context of {} tokens was asked for, the model has "
                                            "learned positions for {}",
                                            options_.context_length, h_.context_length)};
  }
  const std::string name = "position_embd.weight";
  return add(name, tensors_.table(name, h_.first_position + h_.context_length, h_.hidden_dim),
             h_.first_position, h_.context_length, h_.hidden_dim);
}

BufferId Recorder::embed() {
  return embed_rows(kNone);
}

BufferId Recorder::embed_with_positions() {
  return embed_rows(positions());
}

BufferId Recorder::embed_with_types(bool with_positions) {
  const std::string name = "token_types.weight";
  const std::optional<Tensor> types = tensors_.peek(name);
  const std::uint64_t n_types = types ? types->rows : 1;  // absent: the error says so
  const std::uint32_t used = h_.ranks && n_types > 1 ? 2 : 1;
  const WeightId rows =
      add(name, tensors_.table(name, n_types, h_.hidden_dim), 0, used, h_.hidden_dim);
  return embed_rows(with_positions ? positions() : kNone, rows);
}

plan::NormOptions Recorder::rms_options() const {
  plan::NormOptions options;
  options.eps = h_.norm_eps;
  options.offset = h_.norm_offset;
  return options;
}

BufferId Recorder::norm(std::string_view stem, BufferId x) {
  return builder_.norm(std::string(stem), x, vector(stem, h_.hidden_dim), rms_options());
}

BufferId Recorder::norm_add(std::string_view stem, BufferId x, BufferId residual) {
  plan::NormOptions options = rms_options();
  options.residual = residual;
  return builder_.norm(std::string(stem), x, vector(stem, h_.hidden_dim), options);
}

BufferId Recorder::layer_norm(std::string_view stem, BufferId x) {
  plan::NormOptions options;
  options.kind = plan::NormKind::layer;
  options.eps = h_.norm_eps;
  if (h_.norm_bias) options.bias = bias(stem, h_.hidden_dim);
  return builder_.norm(std::string(stem), x, vector(stem, h_.hidden_dim), options);
}

Qkv Recorder::qkv(BufferId x) {
  const std::array names = {std::string("q"), std::string("k"), std::string("v")};
  const HeadShape heads = h_.heads_of(static_cast<std::size_t>(layer_));
  const std::uint32_t q_dim = h_.n_heads * heads.dim, kv_dim = heads.kv_heads * heads.dim;
  const std::array weights = {matrix("attn_q", q_dim, h_.hidden_dim),
                              matrix("attn_k", kv_dim, h_.hidden_dim),
                              matrix("attn_v", kv_dim, h_.hidden_dim)};
  plan::MatmulOptions options;
  if (has_bias("attn_q")) options.bias[0] = bias("attn_q", q_dim);
  if (has_bias("attn_k")) options.bias[1] = bias("attn_k", kv_dim);
  if (has_bias("attn_v")) options.bias[2] = bias("attn_v", kv_dim);
  const std::vector<BufferId> out = builder_.matmul(names, x, weights, options);
  return {out[0], out[1], out[2]};
}

Qkv Recorder::qkv_fused(BufferId x) {
  const std::uint32_t q_dim = h_.q_dim(), kv_dim = h_.kv_dim(), total = q_dim + 2 * kv_dim;
  const std::array names = {std::string("q"), std::string("k"), std::string("v")};
  const std::array<std::uint32_t, 3> begins = {0, q_dim, q_dim + kv_dim};
  const std::array<std::uint32_t, 3> rows = {q_dim, kv_dim, kv_dim};
  std::array<WeightId, 3> weights{};
  plan::MatmulOptions options;
  for (std::size_t i = 0; i < 3; ++i) {
    weights[i] = slice("attn_qkv", total, begins[i], rows[i], h_.hidden_dim);
    if (has_bias("attn_qkv")) {
      options.bias[i] = bias_slice("attn_qkv", total, begins[i], rows[i]);
    }
  }
  const std::vector<BufferId> out = builder_.matmul(names, x, weights, options);
  return {out[0], out[1], out[2]};
}

std::int16_t Recorder::rope_table(bool window_layer, std::uint32_t rope_dim) {
  const bool local = window_layer && h_.rope_theta_window.has_value();
  std::vector<float> frequencies = rope_frequencies(local ? RopeScaling{} : h_.rope_scaling,
                                                    local ? *h_.rope_theta_window : h_.rope_theta,
                                                    rope_dim, options_.context_length);
  const auto finite = [](float f) { return std::isfinite(f); };
  if (!std::ranges::all_of(frequencies, finite) && !error_) {
    error_ = Error{"E_HPARAM", "the rope parameters give frequencies that are not finite"};
  }
  return builder_.constant(std::move(frequencies));
}

plan::AttentionOptions Recorder::attention_options(plan::QkNorm norms) {
  const auto index = static_cast<std::size_t>(layer_);
  const Place& place = places_[index];
  plan::AttentionOptions options;
  options.group = place.group;
  options.group_layer = place.layer;
  options.heads = static_cast<std::uint16_t>(h_.n_heads);
  const HeadShape heads = h_.heads_of(index);
  options.kv_heads = static_cast<std::uint16_t>(heads.kv_heads);
  options.k_dim = options.v_dim = static_cast<std::uint16_t>(heads.dim);
  options.scale = h_.attention_scale;
  options.softcap = h_.attention_softcap;
  options.window = place.window;
  options.chunked = h_.chunked && place.window != 0;
  options.causal = h_.causal;
  if (h_.rope != plan::RopeStyle::none && h_.rope_layers[index]) {
    options.rope = h_.rope;
    options.rope_dim = static_cast<std::uint16_t>(heads.rope_dim);
    options.rope_table = rope_table(h_.window_layers[index], heads.rope_dim);
    const bool local = h_.window_layers[index] && h_.rope_theta_window.has_value();
    options.rope_mscale = local ? 1.0F : rope_mscale(h_.rope_scaling, h_.context_length);
  } else {
    options.query_growth = h_.query_growth;
  }
  options.qk_norm = norms;
  options.eps = h_.norm_eps;
  options.norm_offset = h_.norm_offset;
  if (norms != plan::QkNorm::none && h_.qk_norm_weights) {
    const bool width = norms == plan::QkNorm::width;
    options.q_norm = vector("attn_q_norm", width ? h_.q_dim() : heads.dim);
    if (!shares_kv()) options.k_norm = vector("attn_k_norm", width ? h_.kv_dim() : heads.dim);
  }
  return options;
}

BufferId Recorder::attention(const Qkv& qkv, plan::QkNorm norms) {
  return builder_.attention(qkv.q, qkv.k, qkv.v, attention_options(norms));
}

BufferId Recorder::attention_with_sinks(const Qkv& qkv) {
  plan::AttentionOptions options = attention_options(plan::QkNorm::none);
  options.sinks = vector("attn_sinks", h_.n_heads);
  return builder_.attention(qkv.q, qkv.k, qkv.v, options);
}

BufferId Recorder::project(std::string_view stem, BufferId x, std::uint32_t rows,
                           std::uint32_t cols, BufferId residual) {
  plan::MatmulOptions options;
  if (has_bias(stem)) options.bias[0] = bias(stem, rows);
  options.scale = residual == kNone ? 1.0F : h_.residual_scale;
  options.residual = residual;
  return builder_.matmul(std::string(stem), x, matrix(stem, rows, cols), options);
}

BufferId Recorder::glu(BufferId x) {
  const WeightId gate = matrix("ffn_gate", ffn_dim(), h_.hidden_dim);
  const WeightId up = matrix("ffn_up", ffn_dim(), h_.hidden_dim);
  return builder_.glu("ffn_glu", x, gate, up, h_.activation);
}

BufferId Recorder::glu_fused(BufferId x) {
  const std::uint32_t n = h_.ffn_dim;
  const WeightId gate = slice("ffn_up", 2 * n, 0, n, h_.hidden_dim);
  const WeightId up = slice("ffn_up", 2 * n, n, n, h_.hidden_dim);
  return builder_.glu("ffn_glu", x, gate, up, h_.activation);
}

BufferId Recorder::mlp(BufferId x) {
  plan::MatmulOptions options;
  if (has_bias("ffn_up")) options.bias[0] = bias("ffn_up", h_.ffn_dim);
  options.activation = h_.activation;
  return builder_.matmul("ffn_up", x, matrix("ffn_up", h_.ffn_dim, h_.hidden_dim), options);
}

void Recorder::tap(std::string name, BufferId x) {
  builder_.tap(std::move(name), x);
}

BufferId Recorder::output_rows(BufferId x) {
  layer_ = -1;
  builder_.set_layer(-1);
  return options_.phase == plan::Phase::embed ? x : builder_.select_rows(x);
}

void Recorder::head(BufferId x, plan::NormKind kind, std::string_view norm_stem) {
  head_of_rows(output_rows(x), kind, norm_stem);
}

void Recorder::head_of_rows(BufferId x, plan::NormKind kind, std::string_view norm_stem) {
  const bool embed = options_.phase == plan::Phase::embed;
  const BufferId normed =
      kind == plan::NormKind::rms ? norm(norm_stem, x) : layer_norm(norm_stem, x);
  tap("final_norm", normed);
  const bool tied = !tensors_.has("output.weight");
  const WeightId head = tied ? embedding_ : matrix("output", h_.vocab_size, h_.hidden_dim);
  if (embed) {
    pool(normed);
  } else {
    const WeightId shift = has_bias("output") ? bias("output", h_.vocab_size) : kNone;
    builder_.logits(normed, head, h_.logit_scale, h_.logit_softcap, shift);
  }
}

void Recorder::pool(BufferId x) {
  layer_ = -1;
  builder_.set_layer(-1);
  BufferId y = builder_.pool(x, options_.pooling.value_or(h_.pooling));
  for (const DenseLayer& dense : h_.dense) {
    plan::MatmulOptions options;
    if (has_bias(dense.stem)) options.bias[0] = bias(dense.stem, dense.rows);
    if (dense.tanh) options.softcap = 1.0F;  // 1 * tanh(y / 1)
    y = builder_.matmul("dense", y, matrix(dense.stem, dense.rows, dense.cols), options);
  }
  builder_.result(y);
}

Result<plan::Plan> Recorder::finish() {
  if (error_) return std::unexpected(*error_);
  return builder_.finish();
}

}  // namespace orrery::model
