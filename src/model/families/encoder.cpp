#include "model/families/encoder.hpp"

#include "model/families/blocks.hpp"

namespace orrery::model {

plan::BufferId add_attention_then_norm(Recorder& r, plan::BufferId attended, plan::BufferId x) {
  return r.layer_norm("attn_output_norm", add_attention(r, attended, x));
}

plan::BufferId add_ffn_then_norm(Recorder& r, plan::BufferId hidden, plan::BufferId x) {
  return r.layer_norm("layer_output_norm", add_ffn(r, hidden, x));
}

}  // namespace orrery::model
