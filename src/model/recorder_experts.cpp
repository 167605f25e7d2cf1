// Mixtures of experts: router, experts and shared expert of a layer.
#include <fmt/format.h>

#include "model/recorder.hpp"

namespace orrery::model {

using plan::BufferId;
using plan::kNone;
using plan::WeightId;

WeightId Recorder::experts(std::string_view stem, std::uint32_t total, std::uint32_t begin,
                           std::uint32_t rows, std::uint32_t cols) {
  const std::string name = full_name(stem, "weight");
  const std::uint32_t n = h_.experts.count;
  const Result<Tensor> tensor = tensors_.experts(name, n, total, cols);
  if (!tensor && !error_) error_ = tensor.error();
  return builder_.weight({.tensor = name,
                          .dtype = tensor ? tensor->dtype : DType::f32,
                          .rows = rows,
                          .cols = cols,
                          .row_begin = begin,
                          .experts = n});
}

// (experts, rows), where the file has one.
WeightId Recorder::expert_bias(std::string_view stem, std::uint32_t rows) {
  const std::string name = full_name(stem, "bias");
  if (!tensors_.has(name)) return kNone;
  const std::uint32_t n = h_.experts.count;
  return add(name, tensors_.expert_bias(name, n, rows), 0, n, rows);
}

bool Recorder::has_experts() const {
  return h_.experts.count > 0 && h_.experts.layers[static_cast<std::size_t>(layer_)];
}

BufferId Recorder::router(std::string_view stem, BufferId x, std::uint32_t rows, float scale) {
  plan::MatmulOptions options;
  options.as_decode = true;
  options.scale = scale;
  if (has_bias(stem)) options.bias[0] = bias(stem, rows);
  return builder_.matmul(std::string(stem), x, matrix(stem, rows, h_.hidden_dim), options);
}

BufferId Recorder::routes(BufferId x) {
  const Experts& e = h_.experts;
  plan::RouteOptions options;
  options.used = static_cast<std::uint16_t>(e.used);
  // Over the chosen ones alone it is the same, with fewer terms.
  const bool of_used = e.gate == plan::Gate::softmax && e.renormalise && e.groups == 0;
  options.gate = of_used ? plan::Gate::softmax_used : e.gate;
  options.renormalise = e.renormalise && !of_used;
  options.scale = e.scale;
  options.groups = static_cast<std::uint16_t>(e.groups);
  options.groups_used = static_cast<std::uint16_t>(e.groups_used);
  options.group_score = e.group_score;
  if (has_bias("exp_probs_b")) options.choice_bias = bias("exp_probs_b", e.count);
  if (tensors_.has(full_name("ffn_down_exps.scale", ""))) {
    options.factors = series("ffn_down_exps.scale", e.count);
  }
  const BufferId logits = router("ffn_gate_inp", x, e.count, e.router_scale);
  if (e.shared_gate) options.shared_gate = router("ffn_gate_inp_shexp", x, 1);
  return builder_.moe_route(logits, options);
}

BufferId Recorder::shared_expert(BufferId x, BufferId residual) {
  const std::uint32_t n = h_.experts.shared_ffn_dim;
  const WeightId gate = matrix("ffn_gate_shexp", n, h_.hidden_dim);
  const WeightId up = matrix("ffn_up_shexp", n, h_.hidden_dim);
  const BufferId inner = builder_.glu("shared_glu", x, gate, up, h_.activation);
  return project("ffn_down_shexp", inner, h_.hidden_dim, n, residual);
}

BufferId Recorder::mixture(BufferId x, BufferId residual, BufferId seen_by_router) {
  const Experts& e = h_.experts;
  const std::uint32_t n = e.ffn_dim, d = h_.hidden_dim;
  plan::ExpertOptions options;
  if (!e.gated) {
    options.gate = experts("ffn_up_exps", n, 0, n, d);
  } else if (tensors_.has_experts(full_name("ffn_gate_up_exps", "weight"))) {
    options.gate = experts("ffn_gate_up_exps", 2 * n, 0, n, d);
    options.up = experts("ffn_gate_up_exps", 2 * n, n, n, d);
  } else {
    options.gate = experts("ffn_gate_exps", n, 0, n, d);
    options.up = experts("ffn_up_exps", n, 0, n, d);
  }
  options.down = experts("ffn_down_exps", d, 0, d, n);
  const bool alike = !e.gated || builder_.dtype(options.gate) == builder_.dtype(options.up);
  if (!alike && !error_) {
    error_ = Error{"E_TENSOR", fmt::format("gate and up of the experts of layer {} have unlike "
                                           "types, which is not supported",
                                           layer_)};
  }
  if (!alike) options.up = options.gate;
  options.gate_bias = expert_bias(e.gated ? "ffn_gate_exps" : "ffn_up_exps", n);
  if (e.gated) options.up_bias = expert_bias("ffn_up_exps", n);
  options.down_bias = expert_bias("ffn_down_exps", d);
  if (has_bias("ffn_moe")) options.sum_bias = bias("ffn_moe", d);
  options.activation = h_.activation;
  options.scale = h_.residual_scale;
  options.weigh_input = e.weigh_input;
  // Without a gate the shared expert is one more branch of the residual stream.
  if (e.shared_ffn_dim > 0 && !e.shared_gate) residual = shared_expert(x, residual);
  if (e.shared_ffn_dim > 0 && e.shared_gate) options.shared = shared_expert(x, kNone);
  options.residual = residual;
  const BufferId seen = seen_by_router == kNone ? x : seen_by_router;
  return builder_.experts("ffn_moe", x, routes(seen), options);
}

}  // namespace orrery::model
