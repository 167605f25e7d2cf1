// The parameters of a mixture of experts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/family.hpp"
#include "model/limits.hpp"

namespace orrery::model {
namespace {

constexpr float kMaxScale = 1e6F;

// config.json: of Qwen, of Mixtral and its like, of DeepSeek.
Key count_key(const Source& source) {
  for (const std::string_view name : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (source.has({"", name})) return {"expert_count", name};
  }
  return {"expert_count", "num_experts"};
}

// GGUF's numbers of gating functions.
Status read_gate(const Source& source, const ExpertDefaults& defaults, Hparams& h) {
  const Key key{"expert_gating_func", ""};
  h.experts.gate = defaults.gate;
  ORRERY_TRY(const std::uint32_t number, source.integer_or(key, 0, UINT32_MAX, 0));
  switch (number) {
    case 0:
      if (source.is_gguf() && !defaults.gate_note.empty()) {
        h.notes.emplace_back(
            fmt::format("{} is missing: {}", source.name(key), defaults.gate_note));
      }
      return {};
    case 1:
      h.experts.gate = plan::Gate::softmax;
      return {};
    case 2:
      h.experts.gate = plan::Gate::sigmoid;
      return {};
    case 3:
      h.experts.gate = plan::Gate::softmax_used;
      return {};
    default:
      return fail("E_HPARAM", fmt::format("{} is {}, supported are 1 (softmax), 2 (sigmoid) and 3 "
                                          "(softmax of the chosen experts)",
                                          source.name(key), number));
  }
}

Status read_groups(const Source& source, Hparams& h) {
  Experts& e = h.experts;
  const Key groups{"expert_group_count", "n_group"};
  const Key used{"expert_group_used_count", "topk_group"};
  ORRERY_TRY(e.groups, source.integer_or(groups, 0, e.count, 0));
  if (e.groups <= 1) {
    e.groups = 0;
    return {};
  }
  if (e.count % e.groups != 0) {
    return fail("E_HPARAM", fmt::format("{} is {}, no divisor of the {} experts",
                                        source.name(groups), e.groups, e.count));
  }
  ORRERY_TRY(e.groups_used, source.integer(used, 1, e.groups));
  const std::uint32_t within = e.groups_used * (e.count / e.groups);
  if (e.used > within) {
    return fail("E_HPARAM", fmt::format("{} experts of a token do not fit into {} of {} groups of "
                                        "{} experts",
                                        e.used, e.groups_used, e.groups, e.count / e.groups));
  }
  return {};
}

// Leading dense layers (DeepSeek), every n-th layer with experts and layers without (Qwen).
Status read_layers(const Source& source, Hparams& h) {
  std::vector<bool>& layers = h.experts.layers;
  const Key dense{"leading_dense_block_count", "first_k_dense_replace"};
  ORRERY_TRY(const std::uint32_t first, source.integer_or(dense, 0, h.n_layers, 0));
  ORRERY_TRY(const std::uint32_t step,
             source.integer_or({"", "decoder_sparse_step"}, 1, kMaxLayers, 1));
  for (std::uint32_t i = 0; i < h.n_layers; ++i) layers[i] = i >= first && (i + 1) % step == 0;
  const Key without{"", "mlp_only_layers"};
  ORRERY_TRY(const std::vector<float> numbers, source.floats(without));
  for (const float number : numbers) {
    const auto i = static_cast<std::uint32_t>(std::clamp(number, 0.0F, float{kMaxLayers}));
    if (static_cast<float>(i) != number || i >= h.n_layers) {
      return fail("E_HPARAM", fmt::format("{} names layer {}, the model has {}",
                                          source.name(without), number, h.n_layers));
    }
    layers[i] = false;
  }
  return {};
}

}  // namespace

Status read_experts(const Source& source, const ExpertDefaults& defaults, Hparams& h) {
  Experts& e = h.experts;
  const Key count = count_key(source);
  e.layers.assign(h.n_layers, false);
  ORRERY_TRY(e.count, source.integer_or(count, 0, kMaxExperts, 0));
  if (e.count == 0) return {};
  Key used{"expert_used_count", "num_experts_per_tok"};
  if (!source.has(used)) used.config = source.has({"", "moe_top_k"}) ? "moe_top_k" : used.config;
  ORRERY_TRY(e.used, source.integer(used, 1, kMaxExperts));
  if (e.used > e.count) {
    return fail("E_HPARAM", fmt::format("{} is {}, the model has {} experts", source.name(used),
                                        e.used, e.count));
  }
  ORRERY_TRY(e.ffn_dim, source.integer_or({"expert_feed_forward_length", "moe_intermediate_size"},
                                          1, kMaxFfnDim, h.ffn_dim));
  ORRERY_TRY(e.shared_ffn_dim, source.integer_or({"expert_shared_feed_forward_length",
                                                  "shared_expert_intermediate_size"},
                                                 0, kMaxFfnDim, 0));
  ORRERY_TRY(e.renormalise,
             source.boolean_or({"expert_weights_norm", "norm_topk_prob"}, defaults.renormalise));
  ORRERY_TRY(e.scale, source.positive_or({"expert_weights_scale", "routed_scaling_factor"},
                                         kMaxScale, 1.0F));
  ORRERY_TRY_VOID(read_gate(source, defaults, h));
  ORRERY_TRY_VOID(read_groups(source, h));
  return read_layers(source, h);
}

}  // namespace orrery::model
