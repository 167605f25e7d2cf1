// Qwen2 and Qwen2.5 (arXiv 2407.10671): Llama with biases on q, k and v; Qwen2-MoE has experts and
// a shared one that is weighed by a gate of its own.
#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY_VOID(read_rope(source, h));
  ORRERY_TRY_VOID(read_experts(source, {.gate = plan::Gate::softmax}, h));
  h.experts.shared_gate = h.experts.shared_ffn_dim > 0;
  return read_windows(source, {.only_if_used = true}, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const Qkv qkv = r.qkv(r.norm("attn_norm", x));  // with biases
    const plan::BufferId attended = r.attention(qkv);
    x = add_attention(r, attended, x);
    x = add_glu_or_experts(r, r.norm("ffn_norm", x), x);
  }
  r.head(x);
}

constexpr std::string_view kGguf[] = {"qwen2", "qwen2moe"};
constexpr std::string_view kConfig[] = {"qwen2", "qwen2_moe"};
constexpr NamePair kTensorNames[] = {
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
};

}  // namespace

extern const Family kQwen2;
constexpr Family kQwen2 = {.name = "qwen2",
                           .gguf = kGguf,
                           .config = kConfig,
                           .tensor_names = kTensorNames,
                           .read = read,
                           .forward = forward};

}  // namespace orrery::model
