// Mamba-2 (arXiv 2405.21060): every layer is a convolution and a scan over the state of each head.
#include <fmt/format.h>

#include <array>

#include "model/family.hpp"
#include "model/limits.hpp"

namespace orrery::model {
namespace {

constexpr std::uint32_t kUnsaidContext = 1U << 20;  // the state is as large at any length

// Heads and their width from what the file gives: GGUF the inner width, config.json the factor.
Status read_sizes(const Source& source, Hparams& h) {
  StateShape& s = h.state;
  const Key heads{"ssm.time_step_rank", "num_heads"};
  ORRERY_TRY(s.heads, source.integer(heads, 1, kMaxHeads));
  const Key groups{"ssm.group_count", "n_groups"};
  ORRERY_TRY(s.key_heads, source.integer_or(groups, 1, kMaxHeads, 1));
  ORRERY_TRY(s.k_dim, source.integer({"ssm.state_size", "state_size"}, 1, kMaxStateDim));
  const Key inner{"ssm.inner_size", ""};
  std::uint32_t width = 0;
  if (source.is_gguf()) {
    ORRERY_TRY(width, source.integer(inner, 1, kMaxFfnDim));
  } else {
    ORRERY_TRY(const std::uint32_t expand, source.integer_or({"", "expand"}, 1, 16, 2));
    width = expand * h.hidden_dim;
  }
  if (width % s.heads != 0 || width / s.heads > kMaxStateDim) {
    return fail("E_HPARAM",
                fmt::format("{} is {}, which the inner width of {} does not divide into "
                            "heads of 1 to {}",
                            source.name(heads), s.heads, width, kMaxStateDim));
  }
  s.v_dim = width / s.heads;
  ORRERY_TRY(const std::uint32_t said, source.integer_or({"", "head_dim"}, 1, kMaxFfnDim, s.v_dim));
  if (said != s.v_dim) {
    return fail("E_HPARAM",
                fmt::format("{} is {}, but {} heads of an inner width of {} have {}",
                            source.name({"", "head_dim"}), said, s.heads, width, s.v_dim));
  }
  if (s.heads % s.key_heads == 0) return {};
  return fail("E_HPARAM", fmt::format("{} is {}, no divisor of the {} heads", source.name(groups),
                                      s.key_heads, s.heads));
}

// config.json may bound the time step; every published model leaves it from 0 to infinity.
Status refuse_bounded_steps(const Source& source) {
  const Key key{"", "time_step_limit"};
  if (!source.has(key)) return {};
  const Result<std::vector<float>> limits = source.floats(key);  // no numbers: infinity
  if (!limits || limits->size() < 2) return {};
  return fail("E_HPARAM", fmt::format("{} is finite, which is not supported", source.name(key)));
}

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY(h.state.conv_taps,
             source.integer({"ssm.conv_kernel", "conv_kernel"}, 2, kMaxConvTaps));
  ORRERY_TRY_VOID(read_sizes(source, h));
  ORRERY_TRY_VOID(refuse_bounded_steps(source));
  h.state.conv_dim = h.state.value_dim() + 2 * h.state.key_dim();
  h.state_layers.assign(h.n_layers, true);
  return {};
}

// x + out (norm(silu(z) * scan(conv([x B C]), dt)))
plan::BufferId add_mixer(Recorder& r, plan::BufferId normed, plan::BufferId residual) {
  const StateShape& s = r.hparams().state;
  const std::array names = {std::string("z"), std::string("xbc"), std::string("dt")};
  const auto in = r.parts("ssm_in", normed, names, std::array{s.value_dim(), s.conv_dim, s.heads});
  plan::ConvOptions silu;
  silu.activation = plan::Activation::silu;
  const plan::BufferId y = r.scan(r.convolve("ssm_conv1d", in[1], silu), in[2]);
  const plan::BufferId gated = r.mul("gated", in[0], y, plan::Activation::silu);
  const plan::BufferId parts = r.norm_parts("ssm_norm", gated, s.key_heads, s.value_dim());
  const plan::BufferId x =
      r.project("ssm_out", parts, r.hparams().hidden_dim, s.value_dim(), residual);
  r.tap("ffn_residual", x);
  return x;
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    x = add_mixer(r, r.norm("attn_norm", x), x);
  }
  r.head(x);
}

constexpr std::string_view kNames[] = {"mamba2"};
constexpr CommonKeys kKeys = {
    .norm_eps = {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon"}};
constexpr NamePair kTensorNames[] = {
    {"token_embd", "embeddings"}, {"output_norm", "norm_f"},      {"attn_norm", "norm"},
    {"ssm_in", "mixer.in_proj"},  {"ssm_conv1d", "mixer.conv1d"}, {"ssm_dt.bias", "mixer.dt_bias"},
    {"ssm_a", "mixer.A_log"},     {"ssm_d", "mixer.D"},           {"ssm_norm", "mixer.norm"},
    {"ssm_out", "mixer.out_proj"}};

}  // namespace

extern const Family kMamba2;
constexpr Family kMamba2 = {.name = "mamba2",
                            .gguf = kNames,
                            .config = kNames,
                            .keys = kKeys,
                            .defaults = {.context_length = kUnsaidContext},
                            .tensor_names = kTensorNames,
                            .attends = false,
                            .read = read,
                            .forward = forward};

}  // namespace orrery::model
