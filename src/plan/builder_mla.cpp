// The steps of latent attention: see mla.hpp.
#include "plan/builder.hpp"

namespace orrery::plan {

Step& Builder::append_latent(Op op, NumberClass number_class, const LatentOptions& o) {
  Step& step = append(op, number_class);
  step.group = o.group;
  step.group_layer = o.group_layer;
  step.heads = o.heads;
  step.kv_heads = 1;
  step.k_dim = static_cast<std::uint16_t>(o.rank + o.rope_dim);
  step.v_dim = o.rank;
  if (op == Op::attention) return step;
  step.rope_dim = o.rope_dim;
  step.nope_dim = o.nope_dim;
  step.v_head = o.v_head;
  step.latent = o.weights;
  return step;
}

BufferId Builder::latent_attention(BufferId q, BufferId latent, const LatentOptions& o) {
  const bool expanded = plan_.phase != Phase::decode && !deterministic_;
  const std::uint32_t heads = o.heads;
  const std::uint32_t query = std::uint32_t{expanded ? o.nope_dim : o.rank} + o.rope_dim;
  // Rows of the joint matrix are summed, not multiplied: float products whatever their type.
  const bool summed = expanded || o.weights == LatentWeights::joint;
  const NumberClass keys_class = summed ? NumberClass::f32 : class_of(o.keys, kTokens);
  const BufferId queries = buffer("q_latent", kTokens, heads * query, Form::f32);
  Step& write = append_latent(Op::mla_write, keys_class, o);
  write.in = {q, latent, kNone};
  write.out[0] = queries;
  write.w = {expanded ? kNone : o.keys, o.norm, kNone};
  write.eps = o.eps;
  write.rope = o.rope;
  write.rope_table = o.rope_table;
  write.rope_mscale = o.rope_mscale;

  const BufferId out = buffer("attn", kTokens, heads * o.v_head, Form::f32);
  if (expanded) {
    Step& attend = append_latent(Op::mla_attention, NumberClass::b16, o);
    attend.in[0] = queries;
    attend.out[0] = out;
    attend.w = {o.keys, o.weights == LatentWeights::split ? o.values : kNone, kNone};
    attend.scale = o.scale;
    return out;
  }
  const BufferId latents = buffer("attn_latent", kTokens, heads * o.rank, Form::f32);
  Step& attend = append_latent(Op::attention, NumberClass::f32, o);
  attend.in[0] = queries;
  attend.out[0] = latents;
  attend.scale = o.scale;
  Step& values = append_latent(Op::mla_values, class_of(o.values, kTokens), o);
  values.in[0] = latents;
  values.out[0] = out;
  values.w[0] = o.values;
  return out;
}

}  // namespace orrery::plan
