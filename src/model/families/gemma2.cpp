// Gemma 2 (arXiv 2408.00118): norms before and after each block, alternating windows, softcaps.
#include "model/families/blocks.hpp"
#include "model/families/gemma.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(read_gemma(
      source, {.layers_27b = 46, .attention_softcap = 50.0F, .logit_softcap = 30.0F}, h));
  ORRERY_TRY_VOID(read_rope(source, h));
  return read_windows(source, {.period = 2}, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(r.norm("attn_norm", x)));
    x = add_normed_attention(r, attended, x);
    const plan::BufferId gated = r.glu(r.norm("ffn_norm", x));
    x = add_normed_ffn(r, gated, x);
  }
  r.head(x);
}

constexpr std::string_view kNames[] = {"gemma2"};
constexpr NamePair kTensorNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

}  // namespace

extern const Family kGemma2;
constexpr Family kGemma2 = {.name = "gemma2",
                            .gguf = kNames,
                            .config = kNames,
                            .tensor_names = kTensorNames,
                            .read = read,
                            .forward = forward};

}  // namespace orrery::model
