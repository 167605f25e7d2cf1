#include "model/families/gemma.hpp"

#include <cmath>

namespace orrery::model {
namespace {
constexpr float kMaxScalar = 1e6F;
}

Status read_gemma(const Source& source, const GemmaRule& rule, Hparams& h) {
  const bool gguf = source.is_gguf();
  h.activation = plan::Activation::gelu_tanh;
  ORRERY_TRY_VOID(read_activation(source, {"", "hidden_activation"}, h));
  h.embedding_scale = std::sqrt(static_cast<float>(h.hidden_dim));
  h.norm_offset = gguf ? 0.0F : 1.0F;  // converters to GGUF add the 1
  const bool is_27b = h.n_layers == rule.layers_27b;
  const std::uint32_t scalar = is_27b ? h.hidden_dim / h.n_heads : h.head_dim;
  ORRERY_TRY(const float query_scalar, source.positive_or({"", "query_pre_attn_scalar"}, kMaxScalar,
                                                          static_cast<float>(scalar)));
  h.attention_scale = 1.0F / std::sqrt(query_scalar);
  ORRERY_TRY(h.attention_softcap,
             source.from_zero_or({"attn_logit_softcapping", "attn_logit_softcapping"}, kMaxScalar,
                                 gguf ? rule.attention_softcap : 0.0F));
  ORRERY_TRY(h.logit_softcap,
             source.from_zero_or({"final_logit_softcapping", "final_logit_softcapping"}, kMaxScalar,
                                 gguf ? rule.logit_softcap : 0.0F));
  return {};
}

}  // namespace orrery::model
