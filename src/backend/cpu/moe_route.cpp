// moe_route: the experts of each token and their weights, from the router's logits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/expert_lists.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

float sigmoid(float x) {
  return static_cast<float>(1.0 / (1.0 + std::exp(-double{x})));
}

// In place, summed in order in double precision.
void softmax(float* x, std::uint32_t n) {
  const double top = *std::max_element(x, x + n);
  double sum = 0.0;
  for (std::uint32_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
  for (std::uint32_t i = 0; i < n; ++i) x[i] = static_cast<float>(std::exp(x[i] - top) / sum);
}

// The first of the largest values that are not taken; it is taken then. Whatever the values are,
// each index comes once.
std::uint32_t take_best(float* x, bool* taken, std::uint32_t n) {
  std::uint32_t best = n;
  for (std::uint32_t i = 0; i < n; ++i) {
    if (!taken[i] && (best == n || x[i] > x[best])) best = i;
  }
  taken[best] = true;
  return best;
}

class MoeRoute : public CpuStep {
 public:
  MoeRoute(const CompileContext& context, const plan::Step& step)
      : step_(step),
        logits_(context.buffer(step.in[0])),
        shared_gate_(context.buffer(step.in[1])),
        out_(context.buffer(step.out[0])),
        bias_(context.vector(step.w[0])),
        factors_(context.vector(step.w[1])) {
    kernel_ = context.kernel_label(false, "moe_route", plan::kNone);
  }

  std::size_t scratch_bytes() const override {
    return step_.experts * (2 * sizeof(float) + sizeof(bool)) +
           step_.groups * (sizeof(float) + sizeof(bool));
  }

  void run(const Worker& worker) const override {
    worker.each(worker.batch->n_tokens, [&](std::int32_t t) { route(worker, t); });
  }

 private:
  void route(const Worker& worker, std::int32_t t) const {
    const std::uint32_t n = step_.experts, used = step_.experts_used;
    float* scores = reinterpret_cast<float*>(worker.scratch);  // (experts)
    float* choice = scores + n;                                // (experts)
    float* of_group = choice + n;                              // (groups)
    bool* taken = reinterpret_cast<bool*>(of_group + step_.groups);
    bool* groups_taken = taken + n;
    std::copy_n(logits_.row(t, worker), n, scores);
    if (step_.gate == plan::Gate::softmax) softmax(scores, n);
    if (step_.gate == plan::Gate::sigmoid) std::transform(scores, scores + n, scores, sigmoid);
    for (std::uint32_t e = 0; e < n; ++e) choice[e] = scores[e] + (bias_ ? bias_[e] : 0.0F);
    std::fill(taken, taken + n, false);
    if (step_.groups != 0) take_groups(choice, of_group, taken, groups_taken);

    float* experts = out_.row(t, worker);
    float* weights = experts + used;
    for (std::uint32_t j = 0; j < used; ++j) {
      const std::uint32_t e = take_best(choice, taken, n);
      experts[j] = static_cast<float>(e);
      weights[j] = scores[e];
    }
    finish_weights(weights);
    for (std::uint32_t j = 0; factors_ != nullptr && j < used; ++j) {
      weights[j] *= factors_[static_cast<std::size_t>(experts[j])];
    }
    if (shared_gate_) weights[used] = sigmoid(*shared_gate_.row(t, worker));
  }

  // Experts outside of the best groups count as taken.
  void take_groups(const float* choice, float* of_group, bool* taken, bool* groups_taken) const {
    const std::uint32_t size = step_.experts / step_.groups;
    for (std::uint32_t g = 0; g < step_.groups; ++g) {
      float best = kNever, second = kNever;
      for (const float* x = choice + g * size; x < choice + (g + 1) * size; ++x) {
        if (*x > best) {
          second = std::exchange(best, *x);
        } else {
          second = std::max(second, *x);
        }
      }
      const bool two = step_.group_score == plan::GroupScore::best_two && size > 1;
      of_group[g] = two ? best + second : best;
    }
    std::fill(groups_taken, groups_taken + step_.groups, false);
    for (std::uint32_t i = 0; i < step_.groups_used; ++i) {
      take_best(of_group, groups_taken, step_.groups);
    }
    for (std::uint32_t e = 0; e < step_.experts; ++e) taken[e] = !groups_taken[e / size];
  }

  void finish_weights(float* weights) const {
    const std::uint32_t used = step_.experts_used;
    if (step_.gate == plan::Gate::softmax_used) softmax(weights, used);
    if (step_.renormalise) {
      double sum = 1e-20;  // never zero
      for (std::uint32_t j = 0; j < used; ++j) sum += weights[j];
      for (std::uint32_t j = 0; j < used; ++j) weights[j] = static_cast<float>(weights[j] / sum);
    }
    for (std::uint32_t j = 0; j < used; ++j) weights[j] *= step_.scale;
  }

  const plan::Step step_;
  BufferRef logits_, shared_gate_, out_;
  const float* bias_;
  const float* factors_;  // (experts) or null
};

}  // namespace

StepResult make_moe_route(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<MoeRoute>(context, step);
}

}  // namespace orrery::backend::cpu
