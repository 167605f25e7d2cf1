// BERT (arXiv 1810.04805) as a model of embeddings, and RoBERTa (1907.11692): every token sees the
// whole text, a LayerNorm follows each block.
#include <fmt/format.h>

#include "model/families/encoder.hpp"
#include "model/family.hpp"
#include "model/limits.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  h.causal = false;
  h.rope = plan::RopeStyle::none;
  h.activation = plan::Activation::gelu_erf;
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  const Key positions{"", "position_embedding_type"};
  ORRERY_TRY(const std::string kind, source.text_or(positions, ""));
  if (!kind.empty() && kind != "absolute") {
    return fail("E_HPARAM", fmt::format("{} is \"{}\", supported is \"absolute\"",
                                        source.name(positions), kind.substr(0, kMaxNameChars)));
  }
  if (source.is_gguf() || source.architecture() == "bert") return {};
  // RoBERTa counts positions from the one behind the padding token's; converters to GGUF cut the
  // rows before it.
  ORRERY_TRY(const std::uint32_t padding, source.integer_or({"", "pad_token_id"}, 0, kMaxVocab, 1));
  h.first_position = padding + 1;
  if (h.context_length <= h.first_position) {
    return fail("E_HPARAM", fmt::format("{} is {}, of which padding takes {}",
                                        source.name({"", "max_position_embeddings"}),
                                        h.context_length, h.first_position));
  }
  h.context_length -= h.first_position;
  return {};
}

void forward(Recorder& r) {
  plan::BufferId x = r.layer_norm("token_embd_norm", r.embed_with_types(true));
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    x = add_attention_then_norm(r, r.attention(r.qkv(x)), x);
    x = add_ffn_then_norm(r, r.mlp(x), x);
  }
  r.pool(x);
}

constexpr std::string_view kGguf[] = {"bert"};
constexpr std::string_view kConfig[] = {"bert", "roberta", "xlm-roberta", "camembert"};
constexpr CommonKeys kKeys = {
    .norm_eps = {"attention.layer_norm_epsilon", "layer_norm_eps"},
};
constexpr NamePair kTensorNames[] = {
    {"token_embd", "embeddings.word_embeddings"},
    {"position_embd", "embeddings.position_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "embeddings.LayerNorm"},
    {"blk", "encoder.layer"},
    {"attn_q", "attention.self.query"},
    {"attn_k", "attention.self.key"},
    {"attn_v", "attention.self.value"},
    {"attn_output", "attention.output.dense"},
    {"attn_output_norm", "attention.output.LayerNorm"},
    {"ffn_up", "intermediate.dense"},
    {"ffn_down", "output.dense"},
    {"layer_output_norm", "output.LayerNorm"},
};
// Heads for other tasks.
constexpr std::string_view kIgnored[] = {"pooler.", "bert.pooler.", "roberta.pooler.", "cls.",
                                         "lm_head."};

}  // namespace

extern const Family kBert;
constexpr Family kBert = {.name = "bert",
                          .gguf = kGguf,
                          .config = kConfig,
                          .keys = kKeys,
                          .tensor_names = kTensorNames,
                          .ignored = kIgnored,
                          .read = read,
                          .forward = forward};

}  // namespace orrery::model
