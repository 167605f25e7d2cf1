// Multi-head latent attention: see plan/mla.hpp for the steps.
#include <array>

#include "model/recorder.hpp"
#include "model/rope.hpp"

namespace orrery::model {

using plan::BufferId;
using plan::kNone;
using plan::WeightId;

std::pair<BufferId, BufferId> Recorder::latents(BufferId x) {
  const LatentAttention& a = h_.latent;
  const bool compressed = a.q_rank > 0;
  const std::string stem = compressed ? "attn_q_a" : "attn_q";
  const std::uint32_t q_rows = compressed ? a.q_rank : h_.q_dim(), latent = a.rank + a.rope_dim;
  const std::array names = {stem.substr(5), std::string("latent")};
  const std::array weights = {matrix(stem, q_rows, h_.hidden_dim),
                              matrix("attn_kv_a_mqa", latent, h_.hidden_dim)};
  plan::MatmulOptions options;
  if (has_bias(stem)) options.bias[0] = bias(stem, q_rows);
  if (has_bias("attn_kv_a_mqa")) options.bias[1] = bias("attn_kv_a_mqa", latent);
  const std::vector<BufferId> out = builder_.matmul(names, x, weights, options);
  if (!compressed) return {out[0], out[1]};
  const BufferId normed =
      builder_.norm("q_a_norm", out[0], vector("attn_q_a_norm", a.q_rank), rms_options());
  return {builder_.matmul("q", normed, matrix("attn_q_b", h_.q_dim(), a.q_rank), {}), out[1]};
}

// Files have both matrices of all heads in attn_kv_b, or apart (newer GGUF files) in attn_k_b,
// transposed, and attn_v_b; some have all three.
void Recorder::add_head_matrices(plan::LatentOptions& options) {
  const LatentAttention& a = h_.latent;
  const std::string k_name = full_name("attn_k_b", "weight");
  if (!tensors_.has(k_name)) {
    options.weights = plan::LatentWeights::joint;
    options.keys = options.values =
        matrix("attn_kv_b", h_.n_heads * (a.nope_dim + a.v_dim), a.rank);
    return;
  }
  tensors_.hide(full_name("attn_kv_b", "weight"));
  const std::string v_name = full_name("attn_v_b", "weight");
  options.weights = plan::LatentWeights::split;
  options.keys = add(k_name, tensors_.stack(k_name, h_.n_heads, a.rank, a.nope_dim), 0,
                     h_.n_heads * a.rank, a.nope_dim);
  options.values = add(v_name, tensors_.stack(v_name, h_.n_heads, a.v_dim, a.rank), 0,
                       h_.n_heads * a.v_dim, a.rank);
}

BufferId Recorder::latent_attention(BufferId x) {
  const auto [q, latent] = latents(x);
  const LatentAttention& a = h_.latent;
  const Place& place = places_[static_cast<std::size_t>(layer_)];
  plan::LatentOptions options;
  options.group = place.group;
  options.group_layer = place.layer;
  options.heads = static_cast<std::uint16_t>(h_.n_heads);
  options.rank = static_cast<std::uint16_t>(a.rank);
  options.rope_dim = static_cast<std::uint16_t>(a.rope_dim);
  options.nope_dim = static_cast<std::uint16_t>(a.nope_dim);
  options.v_head = static_cast<std::uint16_t>(a.v_dim);
  add_head_matrices(options);
  options.norm = vector("attn_kv_a_norm", a.rank);
  options.eps = h_.norm_eps;
  options.scale = h_.attention_scale;
  options.rope = h_.rope;
  options.rope_table = rope_table(false, h_.rope_dim);
  options.rope_mscale = rope_mscale(h_.rope_scaling, h_.context_length);
  return builder_.latent_attention(q, latent, options);
}

}  // namespace orrery::model
