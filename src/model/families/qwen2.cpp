// Qwen2 and Qwen2.5 (arXiv 2407.10671): Llama with biases on q, k and v.
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
    const Qkv qkv = r.qkv(r.norm("attn_norm", x));  // with biases
    const plan::BufferId attended = r.attention(qkv);
    x = add_attention(r, attended, x);
    const plan::BufferId gated = r.glu(r.norm("ffn_norm", x));
    x = add_ffn(r, gated, x);
  }
  r.head(x);
}

constexpr std::string_view kNames[] = {"qwen2"};

}  // namespace

extern const Family kQwen2;
constexpr Family kQwen2 = {
    .name = "qwen2", .gguf = kNames, .config = kNames, .read = read, .forward = forward};

}  // namespace orrery::model
