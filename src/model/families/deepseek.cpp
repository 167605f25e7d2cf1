// DeepSeek-V2 (arXiv 2405.04434) and V3 (2412.19437): latent attention.
#include <fmt/format.h>

#include <cmath>

#include "model/families/blocks.hpp"
#include "model/family.hpp"
#include "model/limits.hpp"
#include "model/rope.hpp"

namespace orrery::model {
namespace {

// Sizes of a head. Newer GGUF files say those of the cached latent as key_length and value_length,
// and those of a head with the ending _mla.
Status read_heads(const Source& source, Hparams& h) {
  LatentAttention& a = h.latent;
  ORRERY_TRY(a.rank,
             source.integer({"attention.kv_lora_rank", "kv_lora_rank"}, 1, kMaxHeadDim - 2));
  ORRERY_TRY(a.q_rank,
             source.integer_or({"attention.q_lora_rank", "q_lora_rank"}, 0, kMaxHiddenDim, 0));
  const Key rope{"rope.dimension_count", "qk_rope_head_dim"};
  ORRERY_TRY(a.rope_dim, source.integer(rope, 2, kMaxHeadDim - a.rank));
  const bool cached = source.has({"attention.key_length_mla", ""});
  const Key value{cached ? "attention.value_length_mla" : "attention.value_length", "v_head_dim"};
  ORRERY_TRY(a.v_dim, source.integer(value, 1, kMaxHeadDim));
  if (source.is_gguf()) {
    const Key key{cached ? "attention.key_length_mla" : "attention.key_length", ""};
    ORRERY_TRY(const std::uint32_t head, source.integer(key, 1, kMaxHeadDim));
    if (head <= a.rope_dim) {
      return fail("E_HPARAM", fmt::format("{} is {}, which leaves nothing beside the {} elements "
                                          "that rotate ({})",
                                          source.name(key), head, a.rope_dim, source.name(rope)));
    }
    a.nope_dim = head - a.rope_dim;
  } else {
    ORRERY_TRY(a.nope_dim, source.integer({"", "qk_nope_head_dim"}, 1, kMaxHeadDim - a.rope_dim));
  }
  return {};
}

// Only the last elements of a head rotate. With YaRN, scores grow by the square of its factor for
// mscale_all_dim, and cos and sin by that for mscale over that for mscale_all_dim; GGUF has 0.1
// mscale_all_dim as yarn_log_multiplier and takes the latter factor for 1.
Status read_positions(const Source& source, Hparams& h) {
  LatentAttention& a = h.latent;
  h.head_dim = a.rope_dim;
  ORRERY_TRY_VOID(read_rope(source, h));
  h.head_dim = a.nope_dim + a.rope_dim;
  ORRERY_TRY(const bool adjacent, source.boolean_or({"", "rope_interleave"}, true));
  h.rope = adjacent ? plan::RopeStyle::adjacent : plan::RopeStyle::halves;
  double scale = 1.0 / std::sqrt(static_cast<double>(h.head_dim));
  RopeScaling& s = h.rope_scaling;
  if (s.kind != RopeScaling::Kind::none) {
    if (source.is_gguf()) {
      const Key multiplier{"rope.scaling.yarn_log_multiplier", ""};
      ORRERY_TRY(const float value, source.from_zero_or(multiplier, 10.0F, 0.0F));
      s.mscale = s.mscale_all_dim = 10.0F * value;
      if (s.attention_factor == 0.0F) s.attention_factor = 1.0F;
    }
    if (s.mscale_all_dim > 0.0F) {
      const double factor = yarn_mscale(s.factor, s.mscale_all_dim);
      scale *= factor * factor;
    }
  }
  h.attention_scale = static_cast<float>(scale);
  return {};
}

Status refuse_experts(const Source& source, const Hparams& h) {
  const Key dense{"leading_dense_block_count", "first_k_dense_replace"};
  ORRERY_TRY(const std::uint32_t layers, source.integer_or(dense, 0, kMaxLayers, 0));
  if (layers >= h.n_layers) return {};
  return fail("E_ARCH",
              fmt::format("a {} model with experts is not supported", source.architecture()));
}

Status read(const Source& source, Hparams& h) {
  ORRERY_TRY_VOID(refuse_experts(source, h));
  h.n_kv_heads = 1;
  ORRERY_TRY_VOID(read_heads(source, h));
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_act"}, h));
  return read_positions(source, h);
}

void forward(Recorder& r) {
  plan::BufferId x = r.embed();
  for (std::uint32_t i = 0; i < r.hparams().n_layers; ++i) {
    r.layer(i);
    const plan::BufferId attended = r.latent_attention(r.norm("attn_norm", x));
    x = add_attention(r, attended, x);
    const plan::BufferId gated = r.glu(r.norm("ffn_norm", x));
    x = add_ffn(r, gated, x);
  }
  r.head(x);
}

constexpr std::string_view kGguf[] = {"deepseek2"};
constexpr std::string_view kConfig[] = {"deepseek_v2", "deepseek_v3"};
constexpr NamePair kTensorNames[] = {
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
};

}  // namespace

extern const Family kDeepseek;
constexpr Family kDeepseek = {.name = "deepseek",
                              .gguf = kGguf,
                              .config = kConfig,
                              .tensor_names = kTensorNames,
                              .own_heads = true,
                              .read = read,
                              .forward = forward};

}  // namespace orrery::model
