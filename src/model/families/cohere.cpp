// Command R (Cohere, model card of c4ai-command-r-v01) and Command R7B: attention and feed-forward
// read the same norm, a LayerNorm without bias, and their results are added together. In R7B
// (cohere2) window layers rotate and the full ones have no positions.
#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

constexpr std::uint32_t kPeriod = 4;
constexpr float kLogitScale = 0.0625F;
constexpr float kMaxScale = 1e6F;
// transformers' CohereConfig, for a config.json that does not say it.
constexpr float kTheta = 500'000.0F;

Status read(const Source& source, Hparams& h) {
  h.rope = plan::RopeStyle::adjacent;  // in both formats
  h.norm_bias = false;
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY(h.logit_scale,
             source.positive_or({"logit_scale", "logit_scale"}, kMaxScale, kLogitScale));
  const Key qk_norm{"", "use_qk_norm"};
  ORRERY_TRY(const bool norms, source.boolean_or(qk_norm, false));
  if (norms) return fail("E_HPARAM", source.name(qk_norm) + " is not supported");
  if (source.architecture() != "cohere2") {
    return source.is_gguf() ? read_rope(source, h) : read_rope(source, h, kTheta);
  }
  ORRERY_TRY_VOID(read_rope(source, h));
  ORRERY_TRY_VOID(read_windows(source, {.period = kPeriod}, h));
  h.rope_layers = h.window_layers;
  return {};
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId normed = r.layer_norm("attn_norm", x);
    x = add_attention(r, r.attention(r.qkv(normed)), x);
    x = add_ffn(r, r.glu(normed), x);
  }
  r.head(x, plan::NormKind::layer);
}

constexpr std::string_view kGguf[] = {"command-r", "cohere2"};
constexpr std::string_view kConfig[] = {"cohere", "cohere2"};
constexpr CommonKeys kKeys = {.norm_eps = {"attention.layer_norm_epsilon", "layer_norm_eps"}};

}  // namespace

extern const Family kCohere;
constexpr Family kCohere = {.name = "cohere",
                            .gguf = kGguf,
                            .config = kConfig,
                            .keys = kKeys,
                            .read = read,
                            .forward = forward};

}  // namespace orrery::model
