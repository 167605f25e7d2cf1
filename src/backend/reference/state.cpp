// Layers with a state (plan.hpp, CacheGroup and Op): one token after the other.
#include <algorithm>
#include <cmath>

#include "backend/reference/reference_program.hpp"
#include "base/check.hpp"

namespace orrery::backend::reference {
namespace {

double softplus(double x) {
  return x > 20.0 ? x : std::log1p(std::exp(x));
}

// x / sqrt(sum x^2 + eps) * scale
std::vector<double> normalised(const double* x, std::uint32_t n, double eps, double scale) {
  double squares = eps;
  for (std::uint32_t i = 0; i < n; ++i) squares += x[i] * x[i];
  std::vector<double> y(x, x + n);
  for (double& value : y) value *= scale / std::sqrt(squares);
  return y;
}

}  // namespace

// What the step's layer knows after `position` in the sequence that `row` belongs to.
float* ReferenceProgram::layer_state(const plan::Step& step, const Batch& batch, std::int32_t row,
                                     std::int32_t position) const {
  const plan::CacheGroup& group = plan_.groups[step.group];
  const PagePool& pool = bindings_.pools[step.group];
  const std::int64_t entry = std::int64_t{batch.row_sequence[row]} * batch.pages_stride +
                             position / static_cast<std::int32_t>(plan::kPageTokens);
  const std::int32_t page = batch.page_tables[step.group][entry];
  ORRERY_CHECK(page >= 0 && static_cast<std::uint32_t>(page) < pool.capacity);
  return reinterpret_cast<float*>(
      pool.base + group.page_bytes() * static_cast<std::uint32_t>(page) +
      group.layer_bytes() * static_cast<std::uint32_t>(step.group_layer));
}

// Floats [first, first + n) of it for the row's own token, as the token before left them.
float* ReferenceProgram::enter_state(const plan::Step& step, const Batch& batch, std::int32_t row,
                                     std::uint64_t first, std::uint64_t n) const {
  const std::int32_t position = batch.positions[row];
  float* state = layer_state(step, batch, row, position) + first;
  if (position == 0) {
    std::fill(state, state + n, 0.0F);
  } else if (const float* before = layer_state(step, batch, row, position - 1) + first;
             before != state) {
    std::copy(before, before + n, state);
  }
  return state;
}

void ReferenceProgram::conv_state(const plan::Step& step, const Batch& batch) {
  const std::uint32_t channels = cols_of(step.out[0]);
  const std::uint32_t taps = plan_.weights[step.w[0]].cols;
  const auto factor = [&](plan::BufferId gate, std::size_t i) {
    return gate == plan::kNone ? 1.0 : buffers_[gate][i];
  };
  for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
    // (taps - 1, channels)
    float* history = enter_state(step, batch, row, 0, std::uint64_t{taps - 1} * channels);
    for (std::uint32_t c = 0; c < channels; ++c) {
      const std::size_t at = static_cast<std::size_t>(row) * channels + c;
      const std::vector<float> filter = weight_row(step.w[0], c);
      const double x = buffers_[step.in[0]][at] * factor(step.in[1], at);
      double sum = step.bias[0] == plan::kNone ? 0.0 : weight_row(step.bias[0], 0)[c];
      for (std::uint32_t j = 0; j + 1 < taps; ++j)
        sum += double{filter[j]} * history[j * channels + c];
      sum += filter[taps - 1] * x;
      buffers_[step.out[0]][at] = activate(step.activation, sum) * factor(step.in[2], at);
      for (std::uint32_t j = 0; j + 2 < taps; ++j) {
        history[j * channels + c] = history[(j + 1) * channels + c];
      }
      history[(taps - 2) * channels + c] = static_cast<float>(x);
    }
  }
}

void ReferenceProgram::scan_state(const plan::Step& step, const Batch& batch) {
  const std::uint32_t k = step.k_dim, v = step.v_dim, heads = step.heads;
  const std::vector<float> a = weight_row(step.w[0], 0), skip = weight_row(step.w[1], 0);
  const std::vector<float> bias = weight_row(step.bias[0], 0);
  const std::uint64_t size = std::uint64_t{heads} * k * v;
  for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
    float* states = enter_state(step, batch, row, plan_.groups[step.group].history_floats(), size);
    const double* xbc = &buffers_[step.in[0]][static_cast<std::size_t>(row) * cols_of(step.in[0])];
    for (std::uint32_t h = 0; h < heads; ++h) {
      const std::uint32_t group = h * step.kv_heads / heads;
      const double* x = xbc + h * v;
      const double* b = xbc + heads * v + group * k;
      const double* c = b + step.kv_heads * k;
      const std::size_t at = static_cast<std::size_t>(row) * heads + h;
      const double dt = softplus(buffers_[step.in[1]][at] + bias[h]);
      const double decay = std::exp(dt * a[h]);
      for (std::uint32_t j = 0; j < v; ++j) {
        double sum = double{skip[h]} * x[j];
        for (std::uint32_t i = 0; i < k; ++i) {
          float& s = states[(h * k + i) * v + j];
          const double next = decay * s + b[i] * dt * x[j];
          sum += next * c[i];
          s = static_cast<float>(next);
        }
        buffers_[step.out[0]][at * v + j] = sum;
      }
    }
  }
}

void ReferenceProgram::delta_state(const plan::Step& step, const Batch& batch) {
  const std::uint32_t k = step.k_dim, v = step.v_dim, heads = step.heads, groups = step.kv_heads;
  const std::vector<float> a = weight_row(step.w[0], 0), bias = weight_row(step.bias[0], 0);
  const std::uint64_t size = std::uint64_t{heads} * k * v;
  for (std::int32_t row = 0; row < batch.n_tokens; ++row) {
    float* states = enter_state(step, batch, row, plan_.groups[step.group].history_floats(), size);
    const double* qkv = &buffers_[step.in[0]][static_cast<std::size_t>(row) * cols_of(step.in[0])];
    for (std::uint32_t h = 0; h < heads; ++h) {
      const std::uint32_t group = h * groups / heads;
      const std::vector<double> query = normalised(qkv + group * k, k, step.eps, step.scale);
      const std::vector<double> key = normalised(qkv + (groups + group) * k, k, step.eps, 1.0);
      const double* value = qkv + 2 * groups * k + h * v;
      const std::size_t at = static_cast<std::size_t>(row) * heads + h;
      const double beta = activate(plan::Activation::sigmoid, buffers_[step.in[1]][at]);
      const double decay = std::exp(a[h] * softplus(buffers_[step.in[2]][at] + bias[h]));
      for (std::uint32_t j = 0; j < v; ++j) {
        float* s = states + std::size_t{h} * k * v + j;
        double known = 0.0, sum = 0.0;
        for (std::uint32_t i = 0; i < k; ++i) known += decay * s[i * v] * key[i];
        for (std::uint32_t i = 0; i < k; ++i) {
          const double next = decay * s[i * v] + key[i] * beta * (value[j] - known);
          sum += next * query[i];
          s[i * v] = static_cast<float>(next);
        }
        buffers_[step.out[0]][at * v + j] = sum;
      }
    }
  }
}

}  // namespace orrery::backend::reference
