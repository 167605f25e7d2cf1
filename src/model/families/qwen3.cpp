// Qwen3 (arXiv 2505.09388), dense and with experts: every head of q and k is normalised before its
// rotation.
#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY_VOID(read_rope(source, h));
  // GGUF does not say it; all published models have it.
  const bool renormalise = source.is_gguf();
  ORRERY_TRY_VOID(
      read_experts(source, {.gate = plan::Gate::softmax, .renormalise = renormalise}, h));
  return read_windows(source, {.only_if_used = true}, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(r.norm("attn_norm", x)), plan::QkNorm::head);
    x = add_attention(r, attended, x);
    x = add_glu_or_experts(r, r.norm("ffn_norm", x), x);
  }
  r.head(x);
}

constexpr std::string_view kGguf[] = {"qwen3", "qwen3moe"};
constexpr std::string_view kConfig[] = {"qwen3", "qwen3_moe"};

}  // namespace

extern const Family kQwen3;
constexpr Family kQwen3 = {
    .name = "qwen3", .gguf = kGguf, .config = kConfig, .read = read, .forward = forward};

}  // namespace orrery::model
