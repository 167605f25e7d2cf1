// Llama 2 and 3 (arXiv 2307.09288, 2407.21783), Mistral (2310.06825), Mixtral (2401.04088), SmolLM2
// and SmolLM3.
#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

// SmolLM3 leaves every fourth layer without positions (NoPE).
constexpr std::uint32_t kSmolLm3NoRopePeriod = 4;

Status read(const Source& source, Hparams& h) {
  // Converters to GGUF permute q and k, so that the pairs of a rotation are neighbours.
  h.rope = source.is_gguf() ? plan::RopeStyle::adjacent : plan::RopeStyle::halves;
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY_VOID(read_rope(source, h));
  // Mixtral: the weights are a softmax over the chosen experts.
  ORRERY_TRY_VOID(read_experts(source, {.gate = plan::Gate::softmax_used}, h));
  const bool smollm3 = source.architecture() == "smollm3";
  if (smollm3) ORRERY_TRY_VOID(read_rope_layers(source, kSmolLm3NoRopePeriod, h));
  return read_windows(source, {.only_if_used = smollm3}, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(r.norm("attn_norm", x)));
    x = add_attention(r, attended, x);
    x = add_glu_or_experts(r, r.norm("ffn_norm", x), x);
  }
  r.head(x);
}

constexpr std::string_view kGguf[] = {"llama", "smollm3"};
constexpr std::string_view kConfig[] = {"llama", "mistral", "mixtral", "smollm3"};
constexpr NamePair kTensorNames[] = {
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.experts.*.w1"},
    {"ffn_down_exps", "block_sparse_moe.experts.*.w2"},
    {"ffn_up_exps", "block_sparse_moe.experts.*.w3"},
};

}  // namespace

extern const Family kLlama;
constexpr Family kLlama = {.name = "llama",
                           .gguf = kGguf,
                           .config = kConfig,
                           .tensor_names = kTensorNames,
                           .read = read,
                           .forward = forward};

}  // namespace orrery::model
