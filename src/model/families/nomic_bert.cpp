// Nomic Embed (arXiv 2402.01613): BERT with rotary positions, a gated feed-forward and no biases.
// Version 2 (arXiv 2502.07972): a plain feed-forward and biases, experts in every other layer.
#include <fmt/format.h>

#include "model/families/encoder.hpp"
#include "model/family.hpp"
#include "model/limits.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

constexpr float kTheta = 1000.0F;
constexpr float kMaxTheta = 1e12F;

Status read_encoder(const Source& source, Hparams& h) {
  h.causal = false;
  ORRERY_TRY_VOID(read_rope(source, h, kTheta));
  ORRERY_TRY(h.rope_theta,
             source.positive_or({"rope.freq_base", "rotary_emb_base"}, kMaxTheta, kTheta));
  for (const std::string_view unusual : {"prenorm", "rotary_emb_interleaved"}) {
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

Status read(const Source& source, Hparams& h) {
  h.activation = plan::Activation::silu;
  const Key unusual{"", "qkv_proj_bias"};
  ORRERY_TRY(const bool biases, source.boolean_or(unusual, false));
  if (biases) return fail("E_HPARAM", source.name(unusual) + " is not supported without experts");
  return read_encoder(source, h);
}

Status read_moe(const Source& source, Hparams& h) {
  h.activation = plan::Activation::gelu_erf;
  const Key function{"", "activation_function"};
  ORRERY_TRY(const std::string name, source.text_or(function, "gelu"));
  if (std::string_view(name) != "gelu") {
    return fail("E_HPARAM", fmt::format("{} is \"{}\", supported is gelu with experts",
                                        source.name(function), name.substr(0, kMaxNameChars)));
  }
  ORRERY_TRY_VOID(read_encoder(source, h));
  ORRERY_TRY_VOID(read_experts(source, {}, h));
  Experts& e = h.experts;
  if (e.count == 0) return fail("E_HPARAM", "the model has no experts");
  e.gated = false;
  ORRERY_TRY(e.renormalise,
             source.boolean_or({"expert_weights_norm", "moe_normalize_expert_weights"}, false));
  ORRERY_TRY(const std::uint32_t period,
             source.integer({"moe_every_n_layers", "moe_every_n_layers"}, 2, kMaxLayers));
  for (std::uint32_t i = 0; i < h.n_layers; ++i) e.layers[i] = i % period == 1;
  return {};
}

bool has_moe(const Source& source) {
  const Result<std::uint32_t> period =
      source.integer_or({"", "moe_every_n_layers"}, 0, kMaxLayers, 0);
  return !period || *period > 0;  // one that makes no sense is for read_moe to say
}

bool has_no_moe(const Source& source) {
  return !has_moe(source);
}

void forward_moe(Recorder& r) {
  const bool types = r.has("token_types");
  plan::BufferId x = types ? r.embed_with_types(false) : r.embed();
  x = r.layer_norm("token_embd_norm", x);
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    x = add_attention_then_norm(r, r.attention(r.qkv_fused(x)), x);
    if (r.has_experts()) {
      x = r.layer_norm("layer_output_norm", r.mixture(x, x));
    } else {
      x = add_ffn_then_norm(r, r.mlp(x), x);
    }
  }
  r.pool(x);
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
constexpr std::string_view kMoeGguf[] = {"nomic-bert-moe"};
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
constexpr NamePair kMoeTensorNames[] = {
    {"token_embd", "embeddings.word_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "emb_ln"},
    {"blk", "encoder.layers"},
    {"attn_qkv", "attn.Wqkv"},
    {"attn_output", "attn.out_proj"},
    {"attn_output_norm", "norm1"},
    {"ffn_up", "mlp.fc1"},
    {"ffn_down", "mlp.fc2"},
    {"ffn_gate_inp", "mlp.router.layer"},
    {"ffn_up_exps.weight", "mlp.experts.mlp.w1"},
    {"ffn_down_exps.weight", "mlp.experts.mlp.w2"},
    {"ffn_moe.bias", "mlp.experts.bias"},  // GGUF files go without
    {"layer_output_norm", "norm2"},
};

}  // namespace

extern const Family kNomicBert;
constexpr Family kNomicBert = {.name = "nomic-bert",
                               .gguf = kGguf,
                               .config = kConfig,
                               .owns = has_no_moe,
                               .keys = kKeys,
                               .tensor_names = kTensorNames,
                               .read = read,
                               .forward = forward};

extern const Family kNomicBertMoe;
constexpr Family kNomicBertMoe = {.name = "nomic-bert-moe",
                                  .gguf = kMoeGguf,
                                  .config = kConfig,
                                  .owns = has_moe,
                                  .keys = kKeys,
                                  .tensor_names = kMoeTensorNames,
                                  .expert_layout = ExpertLayout::flat,
                                  .read = read_moe,
                                  .forward = forward_moe};

}  // namespace orrery::model
