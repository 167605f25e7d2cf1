// The blocks of encoders that norm after the residual sum, not before the branch.
#pragma once

#include "model/recorder.hpp"

namespace orrery::model {

// norm(x + W_o attended), norm(x + W_down hidden); LayerNorm.
plan::BufferId add_attention_then_norm(Recorder& r, plan::BufferId attended, plan::BufferId x);
plan::BufferId add_ffn_then_norm(Recorder& r, plan::BufferId hidden, plan::BufferId x);

}  // namespace orrery::model
