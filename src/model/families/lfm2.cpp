// LFM2 (arXiv 2511.23404): gated short convolutions, and attention in some layers.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/limits.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

// GGUF gives convolutional layers no KV heads; all others have the same number.
Status read_layers_of_gguf(const Source& source, Hparams& h) {
  const Key key{"attention.head_count_kv", ""};
  ORRERY_TRY(const std::vector<std::uint32_t> heads, source.integers(key, h.n_heads));
  if (heads.size() != h.n_layers) {
    return fail("E_HPARAM", fmt::format("{} has {} items for {} layers", source.name(key),
                                        heads.size(), h.n_layers));
  }
  h.n_kv_heads = std::ranges::max(heads);
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    h.state_layers[i] = heads[i] == 0;
    const bool fits = heads[i] == 0 || (heads[i] == h.n_kv_heads && h.n_heads % heads[i] == 0);
    if (fits) continue;
    return fail("E_HPARAM",
                fmt::format("{} has {} for layer {}, expected 0 or the {} of other layers, a "
                            "divisor of the {} heads",
                            source.name(key), heads[i], i, h.n_kv_heads, h.n_heads));
  }
  if (h.n_kv_heads == 0) h.n_kv_heads = 1;  // no layer attends
  return {};
}

// A list of the kinds of all layers or, before transformers 4.55, of those that attend.
Status read_layers_of_config(const Source& source, Hparams& h) {
  const Key key{"", "layer_types"}, attending{"", "full_attn_idxs"};
  if (!source.has(key) && source.has(attending)) {
    ORRERY_TRY(const auto indices, source.integers(attending, h.n_layers - 1));
    h.state_layers.assign(h.n_layers, true);
    for (const std::uint32_t i : indices) h.state_layers[i] = false;
    return {};
  }
  ORRERY_TRY(const std::vector<std::string> types, source.texts(key));
  if (types.size() != h.n_layers) {
    return fail("E_HPARAM", fmt::format("{} has {} items for {} layers", source.name(key),
                                        types.size(), h.n_layers));
  }
  for (std::uint32_t i = 0; i < h.n_layers; ++i) {
    h.state_layers[i] = types[i] == "conv";
    if (types[i] == "conv" || types[i] == "full_attention") continue;
    return fail("E_HPARAM",
                fmt::format("{} has \"{}\" for layer {}, expected conv or full_attention",
                            source.name(key), types[i].substr(0, kMaxNameChars), i));
  }
  return {};
}

// config.json may give the width of an ungated feed-forward: two thirds of it, rounded up.
Status adjust_ffn_dim(const Source& source, Hparams& h) {
  ORRERY_TRY(h.ffn_dim, source.integer_or({"", "block_ff_dim"}, 1, kMaxFfnDim, h.ffn_dim));
  ORRERY_TRY(const bool adjusts, source.boolean_or({"", "block_auto_adjust_ff_dim"}, true));
  ORRERY_TRY(const float factor, source.positive_or({"", "block_ffn_dim_multiplier"}, 16.0F, 1.0F));
  ORRERY_TRY(const std::uint32_t multiple,
             source.integer_or({"", "block_multiple_of"}, 1, kMaxFfnDim, 256));
  if (!adjusts) return {};
  const double wanted = double{factor} * (2 * h.ffn_dim / 3);
  const std::uint32_t whole = std::max(1U, static_cast<std::uint32_t>(wanted));
  h.ffn_dim = (whole + multiple - 1) / multiple * multiple;
  return {};
}

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY(h.state.conv_taps,
             source.integer({"shortconv.l_cache", "conv_L_cache"}, 2, kMaxConvTaps));
  h.state.conv_dim = h.hidden_dim;
  if (source.is_gguf()) {
    ORRERY_TRY_VOID(read_layers_of_gguf(source, h));
  } else {
    ORRERY_TRY_VOID(read_layers_of_config(source, h));
    ORRERY_TRY_VOID(adjust_ffn_dim(source, h));
  }
  return read_rope(source, h);
}

// out (c * conv(b * x)), where b, c and x are projections.
plan::BufferId add_short_conv(Recorder& r, plan::BufferId normed, plan::BufferId residual) {
  const std::uint32_t n = r.hparams().hidden_dim;
  const std::array names = {std::string("conv_b"), std::string("conv_c"), std::string("conv_x")};
  const auto in = r.parts("shortconv.in_proj", normed, names, std::array{n, n, n});
  plan::ConvOptions gates;
  gates.gate_in = in[0];
  gates.gate_out = in[1];
  const plan::BufferId y = r.convolve("shortconv.conv", in[2], gates);
  const plan::BufferId x = r.project("shortconv.out_proj", y, n, n, residual);
  r.tap("attn_residual", x);
  return x;
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId normed = r.norm("attn_norm", x);
    x = r.hparams().state_layers[i]
            ? add_short_conv(r, normed, x)
            : add_attention(r, r.attention(r.qkv(normed), plan::QkNorm::head), x);
    x = add_ffn(r, r.glu(r.norm("ffn_norm", x)), x);
  }
  r.head(x, plan::NormKind::rms, "token_embd_norm");
}

constexpr std::string_view kNames[] = {"lfm2"};
constexpr CommonKeys kKeys = {.n_kv_heads = {"", "num_key_value_heads"},
                              .norm_eps = {"attention.layer_norm_rms_epsilon", "norm_eps"}};
constexpr NamePair kTensorNames[] = {{"token_embd_norm", "embedding_norm"},
                                     {"attn_norm", "operator_norm"},
                                     {"attn_output", "self_attn.out_proj"},
                                     {"attn_q_norm", "self_attn.q_layernorm"},
                                     {"attn_k_norm", "self_attn.k_layernorm"},
                                     {"shortconv.conv", "conv.conv"},
                                     {"shortconv.in_proj", "conv.in_proj"},
                                     {"shortconv.out_proj", "conv.out_proj"},
                                     {"ffn_norm", "ffn_norm"},
                                     {"ffn_gate", "feed_forward.w1"},
                                     {"ffn_down", "feed_forward.w2"},
                                     {"ffn_up", "feed_forward.w3"}};

}  // namespace

extern const Family kLfm2;
constexpr Family kLfm2 = {.name = "lfm2",
                          .gguf = kNames,
                          .config = kNames,
                          .keys = kKeys,
                          .tensor_names = kTensorNames,
                          .read = read,
                          .forward = forward};

}  // namespace orrery::model
