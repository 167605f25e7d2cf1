#include "plan/cost.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "plan/passes.hpp"

namespace orrery::plan {
namespace {

double rows_of(const Plan& plan, BufferId id, const Work& work) {
  const Extent& rows = plan.buffers[static_cast<std::size_t>(id)].rows;
  return static_cast<double>(
      rows.at(std::int64_t{work.tokens} * work.sequences, work.sequences, work.outputs));
}

double product_operations(const Plan& plan, const Step& step, const Work& work) {
  double cells = 0;
  for (const WeightId id : step.w) {
    if (id == kNone) continue;
    const Weight& weight = plan.weights[static_cast<std::size_t>(id)];
    cells += static_cast<double>(weight.rows) * weight.cols;
  }
  return 2 * cells * rows_of(plan, step.in[0], work);
}

double tokens_of(const Work& work) {
  return static_cast<double>(work.tokens) * work.sequences;
}

// The share of a step's experts that some tokens are expected to use, or 1 for other steps.
double share_read(const Step& step, double tokens) {
  if (step.op != Op::moe_matmul) return 1.0;
  return 1.0 - std::pow(1.0 - static_cast<double>(step.experts_used) / step.experts, tokens);
}

// f(weight, share of it that is read) for the weights of a run, each once.
template <class F>
void each_weight(const Plan& plan, double tokens, F f) {
  std::vector<bool> seen(plan.weights.size(), false);
  for (const Step& step : plan.steps) {
    if (step.op == Op::embed) continue;
    for (const auto& ids : {step.w, step.bias}) {
      for (const WeightId id : ids) {
        if (id == kNone || seen[static_cast<std::size_t>(id)]) continue;
        seen[static_cast<std::size_t>(id)] = true;
        f(plan.weights[static_cast<std::size_t>(id)], share_read(step, tokens));
      }
    }
  }
}

// Products of a token's experts with their rows.
double expert_operations(const Plan& plan, const Step& step, const Work& work) {
  double cells = 0;
  for (const WeightId id : step.w) {
    if (id == kNone) continue;
    const Weight& weight = plan.weights[static_cast<std::size_t>(id)];
    cells += static_cast<double>(weight.rows) * weight.cols;
  }
  return 2 * cells * step.experts_used * tokens_of(work);
}

double embed_bytes(const Plan& plan, const Step& step, const Work& work) {
  double bytes = 0;
  for (const WeightId id : step.w) {
    if (id == kNone) continue;
    const Weight& weight = plan.weights[static_cast<std::size_t>(id)];
    bytes += static_cast<double>(row_bytes(weight.dtype, weight.cols));
  }
  return bytes * rows_of(plan, step.out[0], work);
}

// K and V of one token and layer.
double token_bytes(const Plan& plan, const Step& step) {
  const CacheGroup& group = plan.groups[static_cast<std::size_t>(step.group)];
  return static_cast<double>(group.kv_heads * group.head_token_bytes());
}

// What a layer's state takes to read and write, and the operations on it.
StepCost state_cost(const Plan& plan, const Step& step, const Work& work) {
  const CacheGroup& group = plan.groups[static_cast<std::size_t>(step.group)];
  const auto tokens = static_cast<double>(work.tokens) * work.sequences;
  if (step.op == Op::conv_state) {
    const auto floats = static_cast<double>(group.history_floats());
    return {8.0 * work.sequences * floats, 2 * tokens * (floats + group.conv_dim)};
  }
  const double floats = static_cast<double>(step.heads) * step.k_dim * step.v_dim;
  return {8 * work.sequences * floats, 6 * tokens * floats};
}

StepCost attention_cost(const Plan& plan, const Step& step, const Work& work) {
  double seen = 0;  // of all tokens of a sequence
  for (std::uint32_t t = 0; t < work.tokens; ++t) {
    const std::uint32_t all = work.position + t + 1;
    seen += step.window == 0 ? all : std::min(all, step.window);
  }
  // Each cached token that anyone sees is read once.
  const std::uint32_t end = work.position + work.tokens;
  const std::uint32_t first =
      step.window == 0 || work.position < step.window ? 0 : work.position + 1 - step.window;
  const double dims = step.k_dim + step.v_dim;
  return {work.sequences * (end - first) * token_bytes(plan, step),
          2 * work.sequences * seen * step.heads * dims};
}

// The matrices of the heads, once for each row of `rows`: of keys, of values.
double latent_operations(const Step& step, double rows, bool keys, bool values) {
  const double cols = (keys ? step.nope_dim : 0) + (values ? step.v_head : 0);
  return 2 * rows * step.heads * step.v_dim * cols;
}

// Bytes of the heads' matrices that a step reads: a joint one is read in part.
double latent_bytes(const Plan& plan, const Step& step, std::uint32_t dim) {
  const auto all = static_cast<double>(step_weight_bytes(plan, step));
  return step.latent == LatentWeights::split ? all : all * dim / (step.nope_dim + step.v_head);
}

// Every cached latent is expanded once for all queries.
StepCost expanded_cost(const Plan& plan, const Step& step, const Work& work) {
  Step heads = step;
  heads.k_dim = static_cast<std::uint16_t>(step.nope_dim + step.rope_dim);
  heads.v_dim = step.v_head;
  StepCost cost = attention_cost(plan, heads, work);
  const double cached = 1.0 * work.sequences * (work.position + work.tokens);
  cost.bytes += static_cast<double>(step_weight_bytes(plan, step));
  cost.operations += latent_operations(step, cached, true, true);
  return cost;
}

StepCost mla_write_cost(const Plan& plan, const Step& step, const Work& work) {
  const double rows = rows_of(plan, step.in[0], work);
  const double written = rows * token_bytes(plan, step);
  if (step.w[0] == kNone) return {written, 0};
  return {written + latent_bytes(plan, step, step.nope_dim),
          latent_operations(step, rows, true, false)};
}

// "blk.3.attn_q.weight" -> "attn_q"
std::string stem(const std::string& tensor) {
  std::string name = tensor;
  if (name.starts_with("blk.")) name = name.substr(std::min(name.size(), name.find('.', 4) + 1));
  return name.substr(0, name.find('.'));
}

// {"attn_q", "attn_k", "attn_v"} -> "attn_q/k/v"
std::string join(const std::vector<std::string>& stems) {
  std::string text = stems[0];
  const std::string prefix = text.substr(0, text.rfind('_') + 1);
  for (std::size_t i = 1; i < stems.size(); ++i) {
    text += '/';
    text += stems[i].starts_with(prefix) ? stems[i].substr(prefix.size()) : stems[i];
  }
  return text;
}

std::string product_label(const Plan& plan, const Step& step) {
  std::vector<std::string> stems;
  for (const WeightId id : step.w) {
    if (id == kNone) continue;
    std::string name = stem(plan.weights[static_cast<std::size_t>(id)].tensor);
    if (std::ranges::find(stems, name) == stems.end()) stems.push_back(std::move(name));
  }
  return join(stems);
}

}  // namespace

StepCost step_cost(const Plan& plan, const Step& step, const Work& work) {
  if (step.out[0] != kNone && rows_of(plan, step.out[0], work) == 0) return {};
  const auto weights = static_cast<double>(step_weight_bytes(plan, step));
  switch (step.op) {
    case Op::matmul:
    case Op::logits:
      return {weights, product_operations(plan, step, work)};
    case Op::moe_matmul:
      return {weights * share_read(step, tokens_of(work)), expert_operations(plan, step, work)};
    case Op::embed:
      return {embed_bytes(plan, step, work), 0};
    case Op::rope_kv_write:
      return {weights + static_cast<double>(work.tokens) * work.sequences * token_bytes(plan, step),
              0};
    case Op::attention:
      return attention_cost(plan, step, work);
    case Op::mla_write:
      return mla_write_cost(plan, step, work);
    case Op::mla_values:
      return {latent_bytes(plan, step, step.v_head),
              latent_operations(step, rows_of(plan, step.in[0], work), false, true)};
    case Op::mla_attention:
      return expanded_cost(plan, step, work);
    case Op::conv_state:
    case Op::scan_state:
    case Op::delta_state: {
      const StepCost state = state_cost(plan, step, work);
      return {weights + state.bytes, state.operations};
    }
    default:
      return {weights, 0};
  }
}

double weights_read(const Plan& plan, const Work& work) {
  double bytes = 0;
  each_weight(plan, tokens_of(work), [&](const Weight& weight, double share) {
    bytes += share * static_cast<double>(weight.bytes());
  });
  return bytes;
}

double parameters_read(const Plan& plan) {
  double elements = 0;
  each_weight(plan, 1, [&](const Weight& weight, double share) {
    elements += share * weight.rows * weight.cols * std::max(1U, weight.experts);
  });
  return elements;
}

std::string step_label(const Plan& plan, const Step& step) {
  if (step.op == Op::logits) return "head";
  std::string label = step.op == Op::matmul || step.op == Op::moe_matmul
                          ? product_label(plan, step)
                          : std::string(op_name(step.op));
  if (step.op == Op::quantize_rows || step.out[0] == kNone) return label;
  const Form form = plan.buffers[static_cast<std::size_t>(step.out[0])].form;
  if (form == Form::q8) label += "+quantize";
  if (form == Form::bf16) label += "+bf16";
  return label;
}

}  // namespace orrery::plan
