// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). What is cached of a
// token is one latent c (rank) and one rotated key part r (rope_dim) for all heads. Head h has
//   key   [K_h c | r]   (nope_dim + rope_dim)      value   V_h c   (v_head)
//
// Absorbed (decode): q . [K_h c | r] = [K_h^T q_nope | q_rope] . [c | r], and the weighted sum of
// values is V_h of the weighted sum of latents. So attention runs over the cache as it is, all
// heads on one "kv head" of k_dim = rank + rope_dim whose values are its keys' first rank elements:
//   mla_write      out0 (N, heads * (rank + rope_dim)) = [K_h^T q_nope | rotated q_rope]
//   attention      out0 (N, heads * rank)
//   mla_values     out0 (N, heads * v_head)
// Expanded (prefill): keys and values of each head are made from the latents, once for all queries:
//   mla_write      out0 (N, heads * (nope_dim + rope_dim)) = [q_nope | rotated q_rope], no w0
//   mla_attention  out0 (N, heads * v_head)
// Per (query, position) that costs nope_dim + rope_dim + v_head instead of 2 rank + rope_dim.
//
// Fields of the steps: in0 = q (N, heads * (nope_dim + rope_dim)) and in1 = latents (N, rank +
// rope_dim) of mla_write, w1 the weight of the latents' norm with eps; k_dim = rank + rope_dim,
// v_dim = rank; rope_dim are the *last* elements of a head or latent.
//
// joint: one matrix (heads * (nope_dim + v_head), rank), K_h above V_h for each head.
// split: K_h^T (heads * rank, nope_dim) and V_h (heads * v_head, rank).
#pragma once

#include "plan/plan.hpp"

namespace orrery::plan {

struct LatentOptions {
  std::int16_t group = 0, group_layer = 0;
  std::uint16_t heads = 0, rank = 0, rope_dim = 0, nope_dim = 0, v_head = 0;
  LatentWeights weights = LatentWeights::joint;
  WeightId keys = kNone, values = kNone;  // joint: the same
  WeightId norm = kNone;                  // of the latents, with eps
  float eps = 0.0F;
  float scale = 1.0F;
  RopeStyle rope = RopeStyle::adjacent;
  std::int16_t rope_table = -1;
  float rope_mscale = 1.0F;
};

// Rows of one head in the weight of keys or of values.
struct HeadRows {
  std::uint32_t first, count;
};
inline HeadRows key_rows(const Step& step, std::uint32_t head) {
  const std::uint32_t joint = std::uint32_t{step.nope_dim} + step.v_head;
  if (step.latent == LatentWeights::joint) return {head * joint, step.nope_dim};
  return {head * step.v_dim, step.v_dim};
}
inline HeadRows value_rows(const Step& step, std::uint32_t head) {
  const std::uint32_t joint = std::uint32_t{step.nope_dim} + step.v_head;
  if (step.latent == LatentWeights::joint) return {head * joint + step.nope_dim, step.v_head};
  return {head * step.v_head, step.v_head};
}

}  // namespace orrery::plan
