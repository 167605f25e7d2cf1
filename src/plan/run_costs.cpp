#include "plan/run_costs.hpp"

#include <algorithm>

namespace orrery::plan {
namespace {

StepCost operator+(StepCost a, const StepCost& b) {
  return {a.bytes + b.bytes, a.operations + b.operations};
}
StepCost operator-(StepCost a, const StepCost& b) {
  return {a.bytes - b.bytes, a.operations - b.operations};
}
StepCost operator*(double n, const StepCost& a) {
  return {n * a.bytes, n * a.operations};
}

using Steps = std::vector<std::pair<Step, double>>;

bool is_attention(const Step& step) {
  return step.op == Op::attention || step.op == Op::mla_attention;
}

// Steps of layers that are alike cost the same, whenever: what the cost of these two kinds is made
// of is equal.
void add(Steps& all, const Plan& plan, const Step& step) {
  const auto cost = [&](const Step& one, std::uint32_t tokens, std::uint32_t position) {
    return step_cost(plan, one, {.tokens = tokens, .position = position});
  };
  const auto same = std::ranges::find_if(all, [&](const auto& other) {
    const Step& one = other.first;
    if (one.op != step.op || one.group != step.group || one.window != step.window ||
        one.experts_used != step.experts_used || one.experts != step.experts) {
      return false;
    }
    const StepCost a = cost(one, 2, 3), b = cost(step, 2, 3);
    return a.bytes == b.bytes && a.operations == b.operations;
  });
  if (same == all.end()) {
    all.emplace_back(step, 1);
  } else {
    ++same->second;
  }
}

StepCost sum(const Plan& plan, const Steps& steps, const Work& work) {
  StepCost total;
  for (const auto& [step, count] : steps) total = total + count * step_cost(plan, step, work);
  return total;
}

}  // namespace

RunCosts::RunCosts(const Plan& plan) : plan_(plan) {
  StepCost one, more_tokens, more_sequences, one_output, two_outputs;
  for (const Step& step : plan_.steps) {
    if (step.op == Op::tap) continue;
    if (is_attention(step)) {
      add(attention_, plan_, step);
    } else if (step.op == Op::moe_matmul) {
      add(experts_, plan_, step);
    } else {
      const auto cost = [&](const Work& work) { return step_cost(plan_, step, work); };
      one = one + cost({.outputs = 0});
      more_tokens = more_tokens + cost({.tokens = 2, .outputs = 0});
      more_sequences = more_sequences + cost({.sequences = 2, .outputs = 0});
      one_output = one_output + cost({.outputs = 1});
      two_outputs = two_outputs + cost({.outputs = 2});
    }
  }
  layers_.per_token = more_tokens - one;
  layers_.per_sequence = more_sequences - more_tokens;
  layers_.fixed = one - layers_.per_token - layers_.per_sequence;
  per_output_ = two_outputs - one_output;
  head_ = one_output - one - per_output_;
}

StepCost RunCosts::linear(const Work& work) const {
  const double tokens = static_cast<double>(work.tokens) * work.sequences;
  StepCost cost = layers_.fixed + tokens * layers_.per_token +
                  static_cast<double>(work.sequences) * layers_.per_sequence +
                  sum(plan_, experts_, work);
  if (work.outputs > 0) cost = cost + head_ + static_cast<double>(work.outputs) * per_output_;
  return cost;
}

StepCost RunCosts::attention(const Work& work) const {
  return sum(plan_, attention_, work);
}

}  // namespace orrery::plan
