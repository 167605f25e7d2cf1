// Nomic Embed (arXiv 2402.01613): BERT with rotary positions, a gated feed-forward and no biases.
#include <fmt/format.h>

#include "model/families/encoder.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

constexpr float kTheta = 1000.0F;
constexpr float kMaxTheta = 1e12F;

Status read(const Source& source, Hparams& h) {
  h.causal = false;
  h.activation = plan::Activation::silu;
  ORRERY_TRY_VOID(read_rope(source, h, kTheta));
  ORRERY_TRY(h.rope_theta,
             source.positive_or({"rope.freq_base", "rotary_emb_base"}, kMaxTheta, kTheta));
  for (const std::string_view unusual : {"prenorm", "qkv_proj_bias", "rotary_emb_interleaved"}) {
    ORRERY_TRY(const bool on, source.boolean_or({"", unusual}, false));
    if (on) return fail("E_HPARAM", source.name({"", unusual}) + " is not supported");
  }
  ORRERY_TRY(const float rotated, source.positive_or({"", "rotary_emb_fraction"}, 1.0F, 1.0F));
  if (rotated != 1.0F) {
    return fail("E_HPARAM", fmt::format("{} is {}, supported is 1",
                                        source.name({"", "rotary_emb_fraction"}), rotated));
  }
  return {};
}

void forward(Recorder& r) {
  plan::BufferId x = r.layer_norm("token_embd_norm", r.embed_with_types(false));
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    x = add_attention_then_norm(r, r.attention(r.qkv_fused(x)), x);
    x = add_ffn_then_norm(r, r.glu(x), x);
  }
  r.pool(x);
}

constexpr std::string_view kGguf[] = {"nomic-bert"};
constexpr std::string_view kConfig[] = {"nomic_bert"};
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
    {"token_embd", "embeddings.word_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "emb_ln"},
    {"blk", "encoder.layers"},
    {"attn_qkv", "attn.Wqkv"},
    {"attn_output", "attn.out_proj"},
    {"attn_output_norm", "norm1"},
    {"ffn_up", "mlp.fc11"},
    {"ffn_gate", "mlp.fc12"},
    {"ffn_down", "mlp.fc2"},
    {"layer_output_norm", "norm2"},
};

}  // namespace

extern const Family kNomicBert;
constexpr Family kNomicBert = {.name = "nomic-bert",
                               .gguf = kGguf,
                               .config = kConfig,
                               .keys = kKeys,
                               .tensor_names = kTensorNames,
                               .read = read,
                               .forward = forward};

}  // namespace orrery::model
