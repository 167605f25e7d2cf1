// Granite 3 (IBM, model cards of ibm-granite): Llama with multipliers on embedding, attention
// scores, residual branches and logits.
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
  return read_rope(source, h);
}

void forward(Recorder& r) {
  const Hparams& h = r.hparams();
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    r.layer(i);
    const Qkv qkv = r.qkv(r.norm("attn_norm", x));
    const plan::BufferId attended = r.attention(qkv);
    x = r.project("attn_output", attended, h.hidden_dim, h.q_dim(), x);  // x residual_scale
    r.tap("attn_residual", x);
    const plan::BufferId gated = r.glu(r.norm("ffn_norm", x));
    x = r.project("ffn_down", gated, h.hidden_dim, h.ffn_dim, x);  // x residual_scale
    r.tap("ffn_residual", x);
  }
  r.head(x);
}

constexpr std::string_view kNames[] = {"granite"};

}  // namespace

extern const Family kGranite;
constexpr Family kGranite = {
    .name = "granite", .gguf = kNames, .config = kNames, .read = read, .forward = forward};

}  // namespace orrery::model
