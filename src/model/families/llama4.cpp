// Llama 4, text: layers with rotary positions see chunks of the text, every fourth layer sees all
// of it without positions; an expert gets a token times the sigmoid of its score, beside one that
// all tokens use.
#include <fmt/format.h>

#include <algorithm>

#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/limits.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

constexpr std::uint32_t kNoRopePeriod = 4;
constexpr std::uint32_t kChunk = 8192;       // tokens; GGUF takes it for granted
constexpr std::uint32_t kGrowthStep = 8192;  // tokens
constexpr float kGrowthRate = 0.1F, kMaxGrowthRate = 1e3F;
constexpr float kTheta = 500'000.0F;
constexpr std::uint32_t kExpertsOfMaverick = 128;  // whose queries and keys are not normed

// GGUF: a window of 0 tokens is a model without chunks whose layers all rotate.
Status read_chunks(const Source& source, Hparams& h) {
  const Key chunk{"attention.sliding_window", "attention_chunk_size"};
  ORRERY_TRY(h.window, source.integer_or(chunk, 0, kMaxContext, kChunk));
  if (h.window == 0) {
    h.rope_layers.assign(h.n_layers, true);
    return {};
  }
  h.chunked = true;
  h.window_layers = h.rope_layers;
  const Key types{"", "layer_types"};
  ORRERY_TRY(const std::vector<std::string> names, source.texts(types));
  if (names.empty()) return {};
  if (names.size() != h.n_layers) {
    return fail("E_HPARAM", fmt::format("{} has {} items for {} layers", source.name(types),
                                        names.size(), h.n_layers));
  }
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    h.window_layers[i] = names[i] == "chunked_attention";
  }
  return {};
}

Status read_growth(const Source& source, Hparams& h) {
  const Key step{"attention.temperature_length", "floor_scale"};
  const Key rate{"attention.temperature_scale", "attn_scale"};
  ORRERY_TRY(const bool grows, source.boolean_or({"", "attn_temperature_tuning"}, true));
  if (!grows) return {};
  ORRERY_TRY(h.query_growth.step, source.integer_or(step, 1, kMaxContext, kGrowthStep));
  ORRERY_TRY(h.query_growth.rate, source.from_zero_or(rate, kMaxGrowthRate, kGrowthRate));
  return {};
}

Status read_mixture(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(read_experts(source, {.gate = plan::Gate::sigmoid}, h));
  Experts& e = h.experts;
  if (e.count == 0) return {};
  ORRERY_TRY(e.ffn_dim, source.integer_or({"expert_feed_forward_length", "intermediate_size"}, 1,
                                          kMaxFfnDim, h.ffn_dim));
  e.shared_ffn_dim = e.ffn_dim;
  e.weigh_input = true;
  const Key list{"", "moe_layers"};
  ORRERY_TRY(const std::vector<std::uint32_t> layers, source.integers(list, h.n_layers - 1));
  ORRERY_TRY(const std::uint32_t step,
             source.integer_or({"interleave_moe_layer_step", "interleave_moe_layer_step"}, 1,
                               kMaxLayers, 1));
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    const bool listed = std::ranges::find(layers, i) != layers.end();
    e.layers[i] = source.has(list) ? listed : (i + 1) % step == 0;
  }
  return {};
}

Status read(const Source& source, Hparams& h) {
  h.rope = plan::RopeStyle::adjacent;
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  ORRERY_TRY_VOID(read_rope(source, h, kTheta));
  ORRERY_TRY_VOID(read_rope_layers(source, kNoRopePeriod, h));
  ORRERY_TRY_VOID(read_chunks(source, h));
  ORRERY_TRY_VOID(read_growth(source, h));
  ORRERY_TRY_VOID(read_mixture(source, h));
  const bool normed = h.experts.count != kExpertsOfMaverick;
  ORRERY_TRY(h.qk_norm, source.boolean_or({"", "use_qk_norm"}, normed));
  h.qk_norm_weights = false;
  return {};
}

// A rotation keeps lengths, so a norm without weights may come before it as well as after.
plan::QkNorm norms_of(const Hparams& h, std::uint32_t layer) {
  return h.qk_norm && h.rope_layers[layer] ? plan::QkNorm::head : plan::QkNorm::none;
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const Qkv qkv = r.qkv(r.norm("attn_norm", x));
    x = add_attention(r, r.attention(qkv, norms_of(r.hparams(), i)), x);
    x = add_glu_or_experts(r, r.norm("ffn_norm", x), x);
  }
  r.head(x);
}

constexpr std::string_view kGguf[] = {"llama4"};
constexpr std::string_view kConfig[] = {"llama4", "llama4_text"};
constexpr std::string_view kIgnored[] = {"vision_model."};
constexpr CommonKeys kKeys = {.ffn_dim = {"feed_forward_length", "intermediate_size_mlp"}};
constexpr NamePair kTensorNames[] = {
    {"ffn_gate", "feed_forward.gate_proj"},
    {"ffn_up", "feed_forward.up_proj"},
    {"ffn_down", "feed_forward.down_proj"},
    {"ffn_gate_inp", "feed_forward.router"},
    {"ffn_gate_up_exps.weight", "feed_forward.experts.gate_up_proj"},
    {"ffn_down_exps.weight", "feed_forward.experts.down_proj"},
    {"ffn_gate_shexp", "feed_forward.shared_expert.gate_proj"},
    {"ffn_up_shexp", "feed_forward.shared_expert.up_proj"},
    {"ffn_down_shexp", "feed_forward.shared_expert.down_proj"},
};

}  // namespace

extern const Family kLlama4;
constexpr Family kLlama4 = {.name = "llama4",
                            .gguf = kGguf,
                            .config = kConfig,
                            .keys = kKeys,
                            .tensor_names = kTensorNames,
                            .expert_layout = ExpertLayout::columns,
                            .ignored = kIgnored,
                            .read = read,
                            .forward = forward};

}  // namespace orrery::model
