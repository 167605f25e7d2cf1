// Phi 1.5 and 2 (arXiv 2309.05463): attention and feed-forward read the same LayerNorm and their
// results are added together; a part of each head rotates, everything has a bias.
#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  h.activation = plan::Activation::gelu_tanh;
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  const Key qk_norm{"", "qk_layernorm"};
  ORRERY_TRY(const bool norms, source.boolean_or(qk_norm, false));
  if (norms) return fail("E_HPARAM", source.name(qk_norm) + " is not supported");
  return read_rope(source, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId normed = r.layer_norm("attn_norm", x);
    // Older converters to GGUF keep the three matrices as one.
    const Qkv qkv = r.has("attn_qkv") ? r.qkv_fused(normed) : r.qkv(normed);
    x = add_attention(r, r.attention(qkv), x);
    x = add_ffn(r, r.mlp(normed), x);
  }
  r.head(x, plan::NormKind::layer);
}

constexpr std::string_view kGguf[] = {"phi2"};
constexpr std::string_view kConfig[] = {"phi"};
constexpr CommonKeys kKeys = {.norm_eps = {"attention.layer_norm_epsilon", "layer_norm_eps"}};
constexpr NamePair kTensorNames[] = {
    {"output_norm", "final_layernorm"},
    {"attn_output", "self_attn.dense"},
    {"ffn_up", "mlp.fc1"},
    {"ffn_down", "mlp.fc2"},
};

}  // namespace

extern const Family kPhi;
constexpr Family kPhi = {.name = "phi",
                         .gguf = kGguf,
                         .config = kConfig,
                         .keys = kKeys,
                         .tensor_names = kTensorNames,
                         .read = read,
                         .forward = forward};

}  // namespace orrery::model
