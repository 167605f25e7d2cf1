// GLM-4-0414 (model card of THUDM/GLM-4-9B-0414): norms around each block, half of a head rotates,
// gate and up are rows of one matrix.
#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  h.rope = plan::RopeStyle::adjacent;  // in both formats
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  return read_rope(source, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(r.norm("attn_norm", x)));
    x = add_normed_attention(r, attended, x);
    const plan::BufferId gated = r.glu_fused(r.norm("ffn_norm", x));
    x = add_normed_ffn(r, gated, x);
  }
  r.head(x);
}

constexpr std::string_view kNames[] = {"glm4"};
constexpr NamePair kTensorNames[] = {
    {"post_attention_norm", "post_self_attn_layernorm"},
    {"ffn_up", "mlp.gate_up_proj"},
    {"post_ffw_norm", "post_mlp_layernorm"},
};

}  // namespace

extern const Family kGlm4;
constexpr Family kGlm4 = {.name = "glm4",
                          .gguf = kNames,
                          .config = kNames,
                          .tensor_names = kTensorNames,
                          .read = read,
                          .forward = forward};

}  // namespace orrery::model
