#include "model/families/blocks.hpp"

namespace orrery::model {
namespace {

// attn_output and ffn_down; the result is added to `residual`, if any.
plan::BufferId attention_output(Recorder& r, plan::BufferId attended, plan::BufferId residual) {
  const Hparams& h = r.hparams();
  return r.project("attn_output", attended, h.hidden_dim, r.attended_dim(), residual);
}

plan::BufferId ffn_down(Recorder& r, plan::BufferId gated, plan::BufferId residual) {
  const Hparams& h = r.hparams();
  return r.project("ffn_down", gated, h.hidden_dim, r.ffn_dim(), residual);
}

}  // namespace

plan::BufferId add_attention(Recorder& r, plan::BufferId attended, plan::BufferId x) {
  x = attention_output(r, attended, x);
  r.tap("attn_residual", x);
  return x;
}

plan::BufferId add_ffn(Recorder& r, plan::BufferId gated, plan::BufferId x) {
  x = ffn_down(r, gated, x);
  r.tap("ffn_residual", x);
  return x;
}

plan::BufferId add_glu_or_experts(Recorder& r, plan::BufferId normed, plan::BufferId x) {
  if (!r.has_experts()) return add_ffn(r, r.glu(normed), x);
  x = r.mixture(normed, x);
  r.tap("ffn_residual", x);
  return x;
}

plan::BufferId add_normed_attention(Recorder& r, plan::BufferId attended, plan::BufferId x) {
  x = r.norm_add("post_attention_norm", attention_output(r, attended, plan::kNone), x);
  r.tap("attn_residual", x);
  return x;
}

plan::BufferId add_normed_ffn(Recorder& r, plan::BufferId gated, plan::BufferId x) {
  x = r.norm_add("post_ffw_norm", ffn_down(r, gated, plan::kNone), x);
  r.tap("ffn_residual", x);
  return x;
}

}  // namespace orrery::model
