// Qwen3 (arXiv 2505.09388), dense: every head of q and k is normalised before its rotation.
#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY_VOID(read_rope(source, h));
  return read_windows(source, {.only_if_used = true}, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(r.norm("attn_norm", x)), plan::QkNorm::head);
    x = add_attention(r, attended, x);
    const plan::BufferId gated = r.glu(r.norm("ffn_norm", x));
    x = add_ffn(r, gated, x);
  }
  r.head(x);
}

constexpr std::string_view kNames[] = {"qwen3"};

}  // namespace

extern const Family kQwen3;
constexpr Family kQwen3 = {
    .name = "qwen3", .gguf = kNames, .config = kNames, .read = read, .forward = forward};

}  // namespace orrery::model
