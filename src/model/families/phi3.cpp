// Phi-3 and Phi-4-mini (arXiv 2404.14219): q, k and v are rows of one matrix, gate and up of
// another; long contexts by longrope (2402.13753).
#include "model/families/blocks.hpp"
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
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv_fused(r.norm("attn_norm", x)));
    x = add_attention(r, attended, x);
    const plan::BufferId gated = r.glu_fused(r.norm("ffn_norm", x));
    x = add_ffn(r, gated, x);
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
