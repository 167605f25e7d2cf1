// The blocks that families share: what an attention or a feed-forward gives is projected back to
// the hidden width and added to the residual stream x.
#pragma once

#include "model/recorder.hpp"

namespace orrery::model {

// Pre-norm blocks (Llama and most others): x + W_o attended, x + W_down gated, the branch times
// residual_scale.
plan::BufferId add_attention(Recorder& r, plan::BufferId attended, plan::BufferId x);
plan::BufferId add_ffn(Recorder& r, plan::BufferId gated, plan::BufferId x);

// The same of a layer that may have experts in the place of its feed-forward: x + FFN(normed).
plan::BufferId add_glu_or_experts(Recorder& r, plan::BufferId normed, plan::BufferId x);

// The same where each branch is normed before it is added (Gemma, GLM-4, OLMo 2):
// x + norm(W_o attended), x + norm(W_down gated).
plan::BufferId add_normed_attention(Recorder& r, plan::BufferId attended, plan::BufferId x);
plan::BufferId add_normed_ffn(Recorder& r, plan::BufferId gated, plan::BufferId x);

}  // namespace orrery::model
