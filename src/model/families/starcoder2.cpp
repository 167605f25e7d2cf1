// StarCoder 2 (arXiv 2402.19173): rotary attention with LayerNorm, biases and a plain feed-forward.
#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  h.activation = plan::Activation::gelu_tanh;
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY_VOID(read_rope(source, h));
  return read_windows(source, {}, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(r.layer_norm("attn_norm", x)));
    x = add_attention(r, attended, x);
    const plan::BufferId hidden = r.mlp(r.layer_norm("ffn_norm", x));
    x = add_ffn(r, hidden, x);
  }
  r.head(x, plan::NormKind::layer);
}

constexpr std::string_view kNames[] = {"starcoder2"};
constexpr CommonKeys kKeys = {.norm_eps = {"attention.layer_norm_epsilon", "norm_epsilon"}};
constexpr NamePair kTensorNames[] = {
    {"ffn_up", "mlp.c_fc"},
    {"ffn_down", "mlp.c_proj"},
};

}  // namespace

extern const Family kStarcoder2;
constexpr Family kStarcoder2 = {.name = "starcoder2",
                                .gguf = kNames,
                                .config = kNames,
                                .keys = kKeys,
                                .tensor_names = kTensorNames,
                                .read = read,
                                .forward = forward};

}  // namespace orrery::model
