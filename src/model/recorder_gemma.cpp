// What Gemma 3n and 4 are written in: inputs of every layer, layers without keys of their own, and
// the streams of AltUp.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "model/recorder.hpp"

namespace orrery::model {

using plan::BufferId;
using plan::kNone;
using plan::WeightId;

namespace {

constexpr float kHalfRoot = std::numbers::sqrt2_v<float> / 2;

float root(std::uint32_t n) {
  return std::sqrt(static_cast<float>(n));
}

}  // namespace

bool Recorder::shares_kv() const {
  return h_.shares_kv(static_cast<std::size_t>(layer_));
}

std::uint32_t Recorder::ffn_dim() const {
  return h_.sharing_ffn_dim > 0 && shares_kv() ? h_.sharing_ffn_dim : h_.ffn_dim;
}

std::uint32_t Recorder::attended_dim() const {
  if (h_.latent.rank > 0) return h_.attended_dim();
  return h_.n_heads * h_.heads_of(static_cast<std::size_t>(layer_)).dim;
}

Qkv Recorder::qkv_unit_values(BufferId x) {
  const HeadShape heads = h_.heads_of(static_cast<std::size_t>(layer_));
  const std::uint32_t q_dim = h_.n_heads * heads.dim, kv_dim = heads.kv_heads * heads.dim;
  if (shares_kv()) return {builder_.matmul("q", x, matrix("attn_q", q_dim, h_.hidden_dim), {})};
  Qkv out;
  if (has("attn_v")) {
    out = qkv(x);
  } else {
    const std::vector<BufferId> made = together({{"attn_q", q_dim}, {"attn_k", kv_dim}}, x);
    out = {made[0], made[1], made[1]};
  }
  out.v = unit_norm("v_norm", out.v, heads.kv_heads);
  return out;
}

BufferId Recorder::unit_norm(std::string name, BufferId x, std::uint32_t parts) {
  plan::NormOptions options;
  options.eps = h_.norm_eps;
  options.parts = static_cast<std::uint16_t>(parts);
  return builder_.norm(std::move(name), x, kNone, options);
}

BufferId Recorder::router_norm(BufferId x) {
  return builder_.norm("router_norm", x, series("ffn_gate_inp.scale", h_.hidden_dim),
                       rms_options());
}

BufferId Recorder::add_scaled(std::string name, BufferId a, BufferId b, float scale) {
  return builder_.add(std::move(name), a, b, scale);
}

BufferId Recorder::per_layer_inputs(BufferId x) {
  const std::uint32_t n = h_.n_layers * h_.per_layer_dim;
  const std::string name = "per_layer_token_embd.weight";
  const WeightId table =
      add(name, tensors_.table(name, h_.per_layer_vocab, n), 0, h_.per_layer_vocab, n);
  const BufferId of_token = builder_.embed(table, kNone, root(h_.per_layer_dim));
  plan::MatmulOptions options;
  options.scale = 1.0F / root(h_.hidden_dim);
  const BufferId projected = builder_.matmul(
      "per_layer_proj", x, matrix("per_layer_model_proj", n, h_.hidden_dim), options);
  const BufferId normed =
      norm_parts("per_layer_proj_norm", projected, h_.n_layers, h_.per_layer_dim);
  return builder_.add("per_layer_inputs", normed, of_token, kHalfRoot);
}

BufferId Recorder::per_layer_branch(BufferId x, BufferId inputs) {
  const std::uint32_t n = h_.per_layer_dim;
  const BufferId gate = builder_.matmul("inp_gate", x, matrix("inp_gate", n, h_.hidden_dim), {});
  const BufferId own =
      builder_.columns("layer_input", inputs, static_cast<std::uint32_t>(layer_) * n, n);
  const BufferId gated = mul("gated_input", gate, own, h_.activation);
  return project("proj", gated, h_.hidden_dim, n, kNone);
}

BufferId Recorder::sparse_glu(BufferId x) {
  const float deviations = h_.sparsity[static_cast<std::size_t>(layer_)];
  const std::vector<BufferId> made = together({{"ffn_gate", ffn_dim()}, {"ffn_up", ffn_dim()}}, x);
  return mul("ffn_glu", builder_.sparsify("cut_gate", made[0], deviations), made[1], h_.activation);
}

BufferId Recorder::laurel(BufferId x) {
  const std::uint32_t rank = h_.altup.laurel_rank;
  const BufferId low = project("laurel_l", x, rank, h_.hidden_dim, kNone);
  return norm_add("laurel_post_norm", project("laurel_r", low, h_.hidden_dim, rank, kNone), x);
}

// The i-th of the matrices between the first stream and the others: one tensor in GGUF.
WeightId Recorder::stream_matrix(std::string_view stem, std::uint32_t i) {
  const std::uint32_t d = h_.hidden_dim, n = h_.altup.streams - 1;
  const std::string name = full_name(stem, "weight");
  if (!tensors_.has(name)) return matrix(fmt::format("{}.{}", stem, i), d, d);
  return add(name, tensors_.stack(name, n, d, d), i * d, d, d);
}

BufferId Recorder::altup_router(BufferId x) {
  plan::MatmulOptions options;
  options.as_decode = true;
  options.scale = 1.0F / static_cast<float>(h_.hidden_dim);
  options.softcap = 1.0F;  // 1 * tanh(y / 1)
  return builder_.matmul("router", norm("altup_router_norm", x),
                         matrix("altup_router", h_.altup.streams, h_.hidden_dim), options);
}

BufferId Recorder::altup_begin(BufferId x) {
  BufferId streams = x;
  for (std::uint32_t i = 0; i + 1 < h_.altup.streams; ++i) {
    const BufferId projected = builder_.matmul("altup_proj", x, stream_matrix("altup_proj", i), {});
    streams = builder_.join("streams", streams, builder_.match_rms("stream", projected, x, {}));
  }
  return streams;
}

plan::Builder::Streams Recorder::altup_predict(BufferId streams) {
  const std::uint32_t n = h_.altup.streams;
  const BufferId active =
      builder_.columns("active", streams, h_.altup.active * h_.hidden_dim, h_.hidden_dim);
  return builder_.altup_predict(streams, altup_router(active),
                                matrix("altup_predict_coef", n * n, n),
                                static_cast<std::uint16_t>(h_.altup.active));
}

plan::Builder::Streams Recorder::altup_correct(BufferId predicted, BufferId activated) {
  const std::uint32_t n = h_.altup.streams;
  return builder_.altup_correct(
      predicted, activated, altup_router(activated), matrix("altup_correct_coef", n, n),
      vector("altup_correct_scale", h_.hidden_dim), static_cast<std::uint16_t>(h_.altup.active));
}

BufferId Recorder::altup_add(BufferId streams, BufferId x) {
  return builder_.altup_add(streams, x);
}

// The mean of the first stream and of the others, brought back to its size.
BufferId Recorder::altup_end(BufferId streams) {
  const BufferId rows = output_rows(streams);
  const std::uint32_t n = h_.altup.streams, d = h_.hidden_dim;
  const BufferId first = builder_.columns("first", rows, 0, d);
  BufferId sum = first;
  for (std::uint32_t i = 1; i < n; ++i) {
    const BufferId stream = builder_.columns("stream", rows, i * d, d);
    const BufferId projected =
        builder_.matmul("altup_unembd", stream, stream_matrix("altup_unembd_proj", i - 1), {});
    plan::MatchOptions options;
    options.residual = sum;
    options.scale = i + 1 == n ? 1.0F / static_cast<float>(n) : 1.0F;
    sum = builder_.match_rms("mean", projected, first, options);
  }
  return sum;
}

}  // namespace orrery::model
