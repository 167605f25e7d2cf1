// Gemma 3 (arXiv 2503.19786), text: five window layers with their own rotary base to one full
// layer, norms of q and k instead of softcaps.
#include "model/families/blocks.hpp"
#include "model/families/gemma.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

constexpr std::uint32_t kPeriod = 6;
constexpr float kFullTheta = 1'000'000.0F;
// transformers' Gemma3TextConfig; the larger checkpoints leave these out.
constexpr ConfigDefaults kDefaults = {
    .n_heads = 8, .n_kv_heads = 4, .head_dim = 256, .context_length = 131'072};

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(read_gemma(source, {.layers_27b = 62}, h));
  ORRERY_TRY_VOID(read_rope(source, h, kFullTheta));
  ORRERY_TRY_VOID(read_window_theta(source, h));
  ORRERY_TRY_VOID(read_windows(source, {.period = kPeriod}, h));
  // EmbeddingGemma (arXiv 2509.20354): tokens see both ways, half of the window to each side.
  const bool embeds = source.architecture() == "gemma-embedding";
  ORRERY_TRY(const bool both_ways, source.boolean_or({"", "use_bidirectional_attention"}, embeds));
  if (!both_ways) return {};
  h.causal = false;
  if (h.window != 0) h.window = h.window / 2 + 1;
  return {};
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention(r.qkv(r.norm("attn_norm", x)), plan::QkNorm::head);
    x = add_normed_attention(r, attended, x);
    const plan::BufferId gated = r.glu(r.norm("ffn_norm", x));
    x = add_normed_ffn(r, gated, x);
  }
  r.head(x);
}

constexpr std::string_view kGguf[] = {"gemma3", "gemma-embedding"};
constexpr std::string_view kConfig[] = {"gemma3", "gemma3_text"};
constexpr NamePair kTensorNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

}  // namespace

extern const Family kGemma3;
constexpr Family kGemma3 = {.name = "gemma3",
                            .gguf = kGguf,
                            .config = kConfig,
                            .defaults = kDefaults,
                            .tensor_names = kTensorNames,
                            .read = read,
                            .forward = forward};

}  // namespace orrery::model
