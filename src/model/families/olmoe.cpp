// OLMoE (arXiv 2409.02060): experts without renormalised weights, q and k normalised over their
// whole width.
#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

Status read(const Source& source, Hparams& h) {
  const Key clamp{"attention.clamp_kqv", "clip_qkv"};
  if (source.has(clamp)) {
    return fail("E_HPARAM", source.name(clamp) + " is set: clamped q, k and v are not supported");
  }
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY_VOID(read_rope(source, h));
  ORRERY_TRY_VOID(read_experts(source, {.gate = plan::Gate::softmax}, h));
  if (h.experts.count == 0) {
    return fail("E_HPARAM", source.name({"expert_count", "num_experts"}) +
                                " is missing or 0: every layer of OLMoE has experts");
  }
  return {};
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(r.norm("attn_norm", x)), plan::QkNorm::width);
    x = add_attention(r, attended, x);
    x = add_glu_or_experts(r, r.norm("ffn_norm", x), x);
  }
  r.head(x);
}

constexpr std::string_view kNames[] = {"olmoe"};

}  // namespace

extern const Family kOlmoe;
constexpr Family kOlmoe = {
    .name = "olmoe", .gguf = kNames, .config = kNames, .read = read, .forward = forward};

}  // namespace orrery::model
