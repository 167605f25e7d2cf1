// Gemma 3n, text: four residual streams of which a layer computes one and predicts the others
// (AltUp, arXiv 2301.13310), a linear branch beside attention (LAuReL, arXiv 2411.07501), an input
// of every layer's own, sparse gates in the first layers, and last layers that have no keys.
#include <fmt/format.h>

#include <cmath>

#include "model/families/blocks.hpp"
#include "model/families/gemma.hpp"
#include "model/family.hpp"
#include "model/limits.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

constexpr std::uint32_t kPeriod = 5, kMaxStreams = 4, kStreams = 4;
constexpr float kFullTheta = 1'000'000.0F;
constexpr float kLogitCap = 30.0F;
constexpr float kHalfRoot = 0.70710678F;

// The number of deviations above the mean that a share `p` of a normal distribution is below.
float quantile(double p) {
  double low = -40.0, high = 40.0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return static_cast<float>(low);
}

// config.json says which share of the gates is 0, GGUF the deviations.
Status read_sparsity(const Source& source, Hparams& h) {
  const Key key{"activation_sparsity_scale", "activation_sparsity_pattern"};
  ORRERY_TRY(h.sparsity, source.numbers(key));
  if (!source.is_gguf()) {
    for (float& share : h.sparsity) {
      if (share < 0.0F || share >= 1.0F) {
        return fail("E_HPARAM", fmt::format("{} has {}, expected shares from 0 to below 1",
                                            source.name(key), share));
      }
      share = share > 0.0F ? quantile(share) : -HUGE_VALF;
    }
  }
  if (h.sparsity.empty() || h.sparsity.size() == h.n_layers) return {};
  return fail("E_HPARAM", fmt::format("{} has {} items for {} layers", source.name(key),
                                      h.sparsity.size(), h.n_layers));
}

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(read_gemma(source, {.logit_softcap = kLogitCap}, h));
  h.norm_offset = 0.0F;
  h.attention_scale = 1.0F;
  ORRERY_TRY_VOID(read_rope(source, h, kFullTheta));
  ORRERY_TRY_VOID(read_window_theta(source, h));
  ORRERY_TRY_VOID(read_windows(source, {.period = kPeriod}, h));
  ORRERY_TRY_VOID(read_sharing(source, h));
  ORRERY_TRY_VOID(read_per_layer_inputs(source, h));
  if (h.per_layer_dim == 0) return fail("E_HPARAM", "the layers have no inputs of their own");
  ORRERY_TRY_VOID(read_sparsity(source, h));
  AltUp& a = h.altup;
  const Key active{"altup.active_idx", "altup_active_idx"};
  ORRERY_TRY(a.streams,
             source.integer_or({"altup.num_inputs", "altup_num_inputs"}, 2, kMaxStreams, kStreams));
  ORRERY_TRY(a.active, source.integer_or(active, 0, a.streams - 1, 0));
  const Key scaled{"", "altup_correct_scale"};
  ORRERY_TRY(const bool scales, source.boolean_or(scaled, true));
  if (!scales) return fail("E_HPARAM", source.name(scaled) + " is false, which is not supported");
  return {};
}

Status settle(const Source& source, Tensors& tensors, Hparams& h) {
  const std::optional<Tensor> low = tensors.peek("blk.0.laurel_l.weight");
  const std::uint32_t rank =
      low && low->rows <= kMaxHiddenDim ? static_cast<std::uint32_t>(low->rows) : 0;
  if (rank == 0) {
    return fail("E_TENSOR", fmt::format("tensor {} is missing or no matrix",
                                        tensors.file_name("blk.0.laurel_l.weight")));
  }
  ORRERY_TRY(h.altup.laurel_rank, source.integer_or({"", "laurel_rank"}, 1, kMaxHiddenDim, rank));
  // Files may have the matrices that the last layers do without.
  for (std::uint32_t i = h.n_layers - h.shared_kv_layers; i < h.n_layers; ++i) {
    for (const char* stem : {"attn_k", "attn_v", "attn_k_norm"}) {
      tensors.hide(fmt::format("blk.{}.{}.weight", i, stem));
    }
  }
  return settle_per_layer_inputs(tensors, h);
}

plan::BufferId gates(Recorder& r, std::uint32_t layer, plan::BufferId x) {
  const std::vector<float>& cut = r.hparams().sparsity;
  return cut.empty() || std::isinf(cut[layer]) ? r.glu(x) : r.sparse_glu(x);
}

void forward(Recorder& r) {
  const plan::BufferId embedded = r.embed();
  const plan::BufferId inputs = r.per_layer_inputs(embedded);
  plan::BufferId streams = r.altup_begin(embedded);
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const auto [predicted, x] = r.altup_predict(streams);
    const plan::BufferId normed = r.norm("attn_norm", x);
    const plan::BufferId linear = r.laurel(normed);
    const plan::BufferId attended = r.attention(r.qkv_unit_values(normed), plan::QkNorm::head);
    plan::BufferId y = add_normed_attention(r, attended, x);
    y = r.add_scaled("attn_laurel", y, linear, kHalfRoot);
    y = add_normed_ffn(r, gates(r, i, r.norm("ffn_norm", y)), y);
    const auto [corrected, active] = r.altup_correct(predicted, y);
    streams = r.altup_add(corrected, r.norm("post_norm", r.per_layer_branch(active, inputs)));
  }
  r.head_of_rows(r.altup_end(streams), plan::NormKind::rms, "output_norm");
}

constexpr std::string_view kGguf[] = {"gemma3n"};
constexpr std::string_view kConfig[] = {"gemma3n", "gemma3n_text"};
constexpr std::string_view kIgnored[] = {"model.audio_tower.", "model.embed_vision.",
                                         "model.embed_audio."};
constexpr NamePair kTensorNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"per_layer_token_embd", "embed_tokens_per_layer"},
    {"per_layer_model_proj", "per_layer_model_projection"},
    {"per_layer_proj_norm", "per_layer_projection_norm"},
    {"inp_gate", "per_layer_input_gate"},
    {"proj", "per_layer_projection"},
    {"post_norm", "post_per_layer_input_norm"},
    {"altup_proj.0", "altup_projections.0"},
    {"altup_proj.1", "altup_projections.1"},
    {"altup_proj.2", "altup_projections.2"},
    {"altup_unembd_proj.0", "altup_unembed_projections.0"},
    {"altup_unembd_proj.1", "altup_unembed_projections.1"},
    {"altup_unembd_proj.2", "altup_unembed_projections.2"},
    {"altup_router", "altup.modality_router"},
    {"altup_router_norm", "altup.router_norm"},
    {"altup_predict_coef", "altup.prediction_coefs"},
    {"altup_correct_coef", "altup.correction_coefs"},
    {"altup_correct_scale.weight", "altup.correct_output_scale"},
    {"laurel_l", "laurel.linear_left"},
    {"laurel_r", "laurel.linear_right"},
    {"laurel_post_norm", "laurel.post_laurel_norm"},
};

}  // namespace

extern const Family kGemma3n;
constexpr Family kGemma3n = {.name = "gemma3n",
                             .gguf = kGguf,
                             .config = kConfig,
                             .tensor_names = kTensorNames,
                             .ignored = kIgnored,
                             .read = read,
                             .settle = settle,
                             .forward = forward};

}  // namespace orrery::model
