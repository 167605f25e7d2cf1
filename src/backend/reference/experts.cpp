// Mixture of experts: the choice of the router, the products of each expert, and their sum. Row
// used * t + j of an experts' buffer belongs to the j-th expert of token t.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backend/reference/reference_program.hpp"
#include "base/check.hpp"

namespace orrery::backend::reference {
namespace {

void softmax(std::vector<double>& x) {
  const double top = *std::ranges::max_element(x);
  double sum = 0.0;
  for (double& value : x) sum += value = std::exp(value - top);
  for (double& value : x) value /= sum;
}

// The `n` largest, the first of equals first.
std::vector<std::uint32_t> best(const std::vector<double>& scores, std::uint32_t n) {
  std::vector<std::uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return scores[a] > scores[b]; });
  order.resize(n);
  return order;
}

// Experts outside of the best groups can no longer be chosen.
void keep_best_groups(const plan::Step& step, std::vector<double>& choice) {
  if (step.groups == 0) return;
  const std::size_t size = choice.size() / step.groups;
  const std::size_t counted = step.group_score == plan::GroupScore::best ? 1 : 2;
  std::vector<double> of_group;
  for (std::size_t g = 0; g < step.groups; ++g) {
    std::vector<double> group(choice.begin() + static_cast<std::ptrdiff_t>(g * size),
                              choice.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::ranges::sort(group, std::greater());
    group.resize(std::min(counted, size));
    of_group.push_back(std::accumulate(group.begin(), group.end(), 0.0));
  }
  const std::vector<std::uint32_t> kept = best(of_group, step.groups_used);
  for (std::size_t e = 0; e < choice.size(); ++e) {
    if (std::ranges::find(kept, e / size) == kept.end()) {
      choice[e] = -std::numeric_limits<double>::infinity();
    }
  }
}

}  // namespace

void ReferenceProgram::moe_route(const plan::Step& step, const Batch& batch) {
  const std::uint32_t n = step.experts, used = step.experts_used;
  std::vector<float> bias(n, 0.0F);
  if (step.w[0] != plan::kNone) bias = weight_row(step.w[0], 0);
  std::vector<float> factors;
  if (step.w[1] != plan::kNone) factors = weight_row(step.w[1], 0);
  const bool shared = step.in[1] != plan::kNone;
  for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
    const double* logits = &buffers_[step.in[0]][std::size_t{n} * row];
    std::vector<double> scores(logits, logits + n);
    if (step.gate == plan::Gate::softmax) softmax(scores);
    if (step.gate == plan::Gate::sigmoid) {
      for (double& score : scores) score = 1.0 / (1.0 + std::exp(-score));
    }
    std::vector<double> choice = scores;
    for (std::uint32_t e = 0; e < n; ++e) choice[e] += bias[e];
    keep_best_groups(step, choice);
    const std::vector<std::uint32_t> chosen = best(choice, used);
    std::vector<double> weights;
    for (const std::uint32_t e : chosen) weights.push_back(scores[e]);
    if (step.gate == plan::Gate::softmax_used) softmax(weights);
    if (step.renormalise) {
      const double sum = std::accumulate(weights.begin(), weights.end(), 1e-20);
      for (double& weight : weights) weight /= sum;
    }
    double* out = &buffers_[step.out[0]][std::size_t{cols_of(step.out[0])} * row];
    for (std::uint32_t j = 0; j < used; ++j) {
      out[j] = chosen[j];
      out[used + j] = weights[j] * step.scale * (factors.empty() ? 1.0 : factors[chosen[j]]);
    }
    if (shared) out[2 * used] = 1.0 / (1.0 + std::exp(-buffers_[step.in[1]][row]));
  }
}

void ReferenceProgram::moe_matmul(const plan::Step& step, const Batch& batch) {
  const std::uint32_t used = step.experts_used;
  const std::uint32_t k = cols_of(step.in[0]), n = cols_of(step.out[0]);
  const std::uint32_t route_cols = cols_of(step.in[1]);
  const bool of_experts = plan_.buffers[step.in[0]].order == plan::Order::experts;
  const int n_weights = step.glu ? 2 : 1;
  for (std::size_t expert = 0; expert < step.experts; ++expert) {
    std::vector<std::size_t> pairs;
    for (std::size_t i = 0; i < std::size_t{used} * batch.n_tokens; ++i) {
      const double id = buffers_[step.in[1]][i / used * route_cols + i % used];
      if (static_cast<std::size_t>(id) == expert) pairs.push_back(i);
    }
    if (pairs.empty()) continue;
    std::vector<float> bias[2];
    for (int i = 0; i < n_weights; ++i) {
      bias[i].assign(n, 0.0F);
      if (step.bias[i] == plan::kNone) continue;
      bias[i] = weight_row(step.bias[i], static_cast<std::uint32_t>(expert));
    }
    for (std::uint32_t r = 0; r < n; ++r) {
      std::vector<double> rows[2];
      for (int i = 0; i < n_weights; ++i) {
        const std::vector<float> decoded = weight_row(step.w[i], r, expert);
        rows[i].assign(decoded.begin(), decoded.end());
      }
      for (const std::size_t pair : pairs) {
        const double* x = &buffers_[step.in[0]][(of_experts ? pair : pair / used) * k];
        const double weight =
            step.weigh_input ? buffers_[step.in[1]][pair / used * route_cols + used + pair % used]
                             : 1.0;
        double value = weight * dot(x, rows[0].data(), k) + bias[0][r];
        if (step.glu) {
          value = gated(step.activation, value, weight * dot(x, rows[1].data(), k) + bias[1][r]);
        } else {
          value = activate(step.activation, value);
        }
        buffers_[step.out[0]][pair * n + r] = value;
      }
    }
  }
}

void ReferenceProgram::moe_combine(const plan::Step& step, const Batch& batch) {
  const std::uint32_t used = step.experts_used;
  const std::size_t cols = cols_of(step.out[0]), route_cols = cols_of(step.in[1]);
  std::vector<float> bias(cols, 0.0F);
  if (step.bias[0] != plan::kNone) bias = weight_row(step.bias[0], 0);
  for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
    const double* weights = &buffers_[step.in[1]][route_cols * row + used];
    for (std::size_t i = 0; i < cols; ++i) {
      double sum = bias[i];
      for (std::uint32_t j = 0; j < used; ++j) {
        sum += (step.weigh_input ? 1.0 : weights[j]) *
               buffers_[step.in[0]][(std::size_t{used} * row + j) * cols + i];
      }
      const std::size_t at = cols * row + i;
      if (step.in[2] != plan::kNone) sum += weights[used] * buffers_[step.in[2]][at];
      sum *= step.scale;
      if (step.residual != plan::kNone) sum += buffers_[step.residual][at];
      buffers_[step.out[0]][at] = sum;
    }
  }
}

}  // namespace orrery::backend::reference
