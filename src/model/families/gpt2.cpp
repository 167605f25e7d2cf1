// GPT-2 (Radford et al. 2019): LayerNorm, learned positions, GELU.
#include "model/families/blocks.hpp"
#include "model/family.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  h.rope = plan::RopeStyle::none;
  h.activation = plan::Activation::gelu_tanh;
  for (const std::string_view unusual :
       {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    ORRERY_TRY(const bool on, source.boolean_or({"", unusual}, false));
    if (on) return fail("E_HPARAM", source.name({"", unusual}) + " is not supported");
  }
  return read_activation(source, {"", "activation_function"}, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed_with_positions();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv_fused(r.layer_norm("attn_norm", x)));
    x = add_attention(r, attended, x);
    const plan::BufferId hidden = r.mlp(r.layer_norm("ffn_norm", x));
    x = add_ffn(r, hidden, x);
  }
  r.head(x, plan::NormKind::layer);
}

constexpr std::string_view kNames[] = {"gpt2"};
constexpr CommonKeys kKeys = {
    .n_layers = {"block_count", "n_layer"},
    .hidden_dim = {"embedding_length", "n_embd"},
    .n_heads = {"attention.head_count", "n_head"},
    .n_kv_heads = {"attention.head_count_kv", ""},
    .head_dim = {"attention.key_length", ""},
    .v_head_dim = {"attention.value_length", ""},
    .ffn_dim = {"feed_forward_length", "n_inner"},
    .context_length = {"context_length", "n_positions"},
    .norm_eps = {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
};
constexpr NamePair kTensorNames[] = {
    {"token_embd", "wte"},          {"position_embd", "wpe"},
    {"output_norm", "ln_f"},        {"blk", "h"},
    {"attn_norm", "ln_1"},          {"attn_qkv", "attn.c_attn"},
    {"attn_output", "attn.c_proj"}, {"ffn_norm", "ln_2"},
    {"ffn_up", "mlp.c_fc"},         {"ffn_down", "mlp.c_proj"},
};

}  // namespace

extern const Family kGpt2;
constexpr Family kGpt2 = {.name = "gpt2",
                          .gguf = kNames,
                          .config = kNames,
                          .keys = kKeys,
                          .tensor_names = kTensorNames,
                          .transposed = true,
                          .read = read,
                          .forward = forward};

}  // namespace orrery::model
