// Granite 3 (IBM, model cards of ibm-granite): Llama with multipliers on embedding, attention
// scores, residual branches and logits; dense or with experts.
#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

constexpr float kMaxMultiplier = 1e6F;

Status read(const Source& source, Hparams& h) {
  // Converters to GGUF permute q and k, so that the pairs of a rotation are neighbours.
  h.rope = source.is_gguf() ? plan::RopeStyle::adjacent : plan::RopeStyle::halves;
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY(h.embedding_scale,
             source.positive_or({"embedding_scale", "embedding_multiplier"}, kMaxMultiplier, 1.0F));
  const float unsaid = source.is_gguf() ? h.attention_scale : 1.0F;
  ORRERY_TRY(h.attention_scale, source.positive_or({"attention.scale", "attention_multiplier"},
                                                   kMaxMultiplier, unsaid));
  ORRERY_TRY(h.residual_scale,
             source.positive_or({"residual_scale", "residual_multiplier"}, kMaxMultiplier, 1.0F));
  ORRERY_TRY(const float divisor,
             source.positive_or({"logit_scale", "logits_scaling"}, kMaxMultiplier, 1.0F));
  h.logit_scale = 1.0F / divisor;
  ORRERY_TRY_VOID(read_experts(source, {.gate = plan::Gate::softmax_used}, h));
  return read_rope(source, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(r.norm("attn_norm", x)));
    x = add_attention(r, attended, x);                    // x residual_scale
    x = add_glu_or_experts(r, r.norm("ffn_norm", x), x);  // x residual_scale
  }
  r.head(x);
}

constexpr std::string_view kNames[] = {"granite", "granitemoe"};
constexpr NamePair kTensorNames[] = {
    {"ffn_gate_inp", "block_sparse_moe.router.layer"},
    {"ffn_gate_up_exps", "block_sparse_moe.input_linear"},
    {"ffn_down_exps", "block_sparse_moe.output_linear"},
};

}  // namespace

extern const Family kGranite;
constexpr Family kGranite = {.name = "granite",
                             .gguf = kNames,
                             .config = kNames,
                             .tensor_names = kTensorNames,
                             .read = read,
                             .forward = forward};

}  // namespace orrery::model
