// gpt-oss (arXiv 2508.10925): every other layer sees a window, each head has an attention sink, and
// the experts have biases and a clamped SwiGLU.
#include <fmt/format.h>

#include <cmath>

#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

constexpr std::uint32_t kPeriod = 2, kPublishedContext = 4096;
constexpr float kYarnTheta = 150'000.0F;

// The constants of the SwiGLU are part of the forward pass here.
Status check_constant(const Source& source, std::string_view name, float expected) {
  const Key key{"", name};
  ORRERY_TRY(const float value, source.positive_or(key, 1e6F, expected));
  if (std::abs(value - expected) <= 1e-5F) return {};
  return fail("E_HPARAM",
              fmt::format("{} is {}, supported is {}", source.name(key), value, expected));
}

// GGUF does not say whether the bounds of YaRN's ramp are rounded. Those of the published models,
// which began with 4096 tokens, are not (config.json); llama.cpp rounds all.
void assume_yarn_bounds(const Source& source, Hparams& h) {
  if (!source.is_gguf() || h.rope_scaling.kind != RopeScaling::Kind::yarn) return;
  h.rope_scaling.truncate = h.rope_scaling.original_context != kPublishedContext;
  h.notes.emplace_back(fmt::format(
      "GGUF does not say whether the bounds of YaRN's ramp are rounded; with an original context "
      "of {} they are taken {}",
      h.rope_scaling.original_context,
      h.rope_scaling.truncate ? "rounded, as YaRN's default is" : "as they are, as in gpt-oss"));
}

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(check_constant(source, "swiglu_alpha", 1.702F));
  ORRERY_TRY_VOID(check_constant(source, "swiglu_limit", 7.0F));
  h.activation = plan::Activation::swiglu_clamped;
  ORRERY_TRY_VOID(read_rope(source, h, kYarnTheta));
  assume_yarn_bounds(source, h);
  ORRERY_TRY_VOID(read_experts(source, {.gate = plan::Gate::softmax_used}, h));
  return read_windows(source, {.period = kPeriod}, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.attention_with_sinks(r.qkv(r.norm("attn_norm", x)));
    x = add_attention(r, attended, x);
    x = add_glu_or_experts(r, r.norm("post_attention_norm", x), x);
  }
  r.head(x);
}

constexpr std::string_view kGguf[] = {"gpt-oss"};
constexpr std::string_view kConfig[] = {"gpt_oss"};
constexpr NamePair kTensorNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"attn_sinks.weight", "self_attn.sinks"},
    {"ffn_gate_inp", "mlp.router"},
    {"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_gate_exps.bias", "mlp.experts.gate_up_proj_bias"},
    {"ffn_up_exps.bias", "mlp.experts.gate_up_proj_bias"},
    {"ffn_down_exps.weight", "mlp.experts.down_proj"},
    {"ffn_down_exps.bias", "mlp.experts.down_proj_bias"},
};

}  // namespace

extern const Family kGptOss;
constexpr Family kGptOss = {.name = "gpt-oss",
                            .gguf = kGguf,
                            .config = kConfig,
                            .tensor_names = kTensorNames,
                            .expert_layout = ExpertLayout::alternate,
                            .read = read,
                            .forward = forward};

}  // namespace orrery::model
