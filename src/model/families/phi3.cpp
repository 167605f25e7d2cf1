// Phi-3 and Phi-4-mini (arXiv 2404.14219): q, k and v are rows of one matrix, gate and up of
// another; long contexts by longrope (2402.13753).
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY_VOID(read_rope(source, h));
  return read_windows(source, {}, h);
}

void forward(Recorder& r) {
  const Hparams& h = r.hparams();
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    r.layer(i);
    const Qkv qkv = r.qkv_fused(r.norm("attn_norm", x));
    const plan::BufferId attended = r.attention(qkv);
    x = r.project("attn_output", attended, h.hidden_dim, h.q_dim(), x);
    r.tap("attn_residual", x);
    const plan::BufferId gated = r.glu_fused(r.norm("ffn_norm", x));
    x = r.project("ffn_down", gated, h.hidden_dim, h.ffn_dim, x);
    r.tap("ffn_residual", x);
  }
  r.head(x);
}

constexpr std::string_view kNames[] = {"phi3"};
constexpr NamePair kTensorNames[] = {{"ffn_up", "mlp.gate_up_proj"}};

}  // namespace

extern const Family kPhi3;
constexpr Family kPhi3 = {.name = "phi3",
                          .gguf = kNames,
                          .config = kNames,
                          .tensor_names = kTensorNames,
                          .read = read,
                          .forward = forward};

}  // namespace orrery::model
