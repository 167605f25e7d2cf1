// matmul and logits: y = act(x w^T + bias) * scale + residual; with glu act(x w0^T) * (x w1^T).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "backend/reference/reference_program.hpp"
#include "base/check.hpp"

namespace orrery::backend::reference {
namespace {

// Products below which waking a thread costs more than it saves.
constexpr std::int64_t kThreadedWork = 2'000'000;
constexpr double kClamp = 7.0;  // of swiglu_clamped

}  // namespace

double activate(plan::Activation activation, double x) {
  switch (activation) {
    case plan::Activation::none:
      return x;
    case plan::Activation::silu:
      return x / (1.0 + std::exp(-x));
    case plan::Activation::gelu_tanh: {
      const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1.0 + std::tanh(inner));
    }
    case plan::Activation::gelu_erf:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case plan::Activation::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case plan::Activation::swiglu_clamped: {
      const double gate = std::min(x, kClamp);
      return gate / (1.0 + std::exp(-1.702 * gate));
    }
  }
  ORRERY_CHECK(false);
}

double gated(plan::Activation activation, double gate, double up) {
  const bool clamped = activation == plan::Activation::swiglu_clamped;
  return activate(activation, gate) * (clamped ? 1.0 + std::clamp(up, -kClamp, kClamp) : up);
}

// Four partial sums, so that the sum of one element need not wait for the last.
double dot(const double* a, const double* b, std::uint32_t n) {
  double sums[4] = {0.0, 0.0, 0.0, 0.0};
  std::uint32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::uint32_t k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// x (rows, cols) times the transposed weight (n, cols): (rows, n). The threads share the n rows.
std::vector<double> ReferenceProgram::multiply(const std::vector<double>& x, std::int64_t rows,
                                               plan::WeightId weight) const {
  const plan::Weight& w = plan_.weights[weight];
  std::vector<double> y(static_cast<std::size_t>(rows) * w.rows);
  struct Job {
    const ReferenceProgram* program;
    const double* x;
    double* y;
    std::int64_t rows;
    plan::WeightId weight;
    std::uint32_t threads;
  } job{this, x.data(), y.data(), rows, weight, 1};
  const auto task = [](void* context, int thread) {
    const Job& j = *static_cast<const Job*>(context);
    const plan::Weight& matrix = j.program->plan_.weights[j.weight];
    for (auto n = static_cast<std::uint32_t>(thread); n < matrix.rows; n += j.threads) {
      const std::vector<float> decoded = j.program->weight_row(j.weight, n);
      const std::vector<double> row(decoded.begin(), decoded.end());
      for (std::int64_t r = 0; r < j.rows; ++r) {
        j.y[r * matrix.rows + n] = dot(j.x + r * matrix.cols, row.data(), matrix.cols);
      }
    }
  };
  if (rows * w.rows * w.cols < kThreadedWork) {
    task(&job, 0);
  } else {
    job.threads = static_cast<std::uint32_t>(team_->size());
    team_->run(task, &job);
  }
  return y;
}

Status ReferenceProgram::bind_adapter(std::uint32_t slot, std::span<const LowRank> pairs) {
  ORRERY_CHECK(slot < kMaxAdapters && adapters_[slot].empty());
  adapters_[slot].assign(pairs.begin(), pairs.end());
  return {};
}

void ReferenceProgram::add_adapters(const plan::Step& step, std::size_t weight, const Batch& batch,
                                    std::vector<double>& y) const {
  if (batch.adapter_scales == nullptr) return;
  const bool outputs = plan_.buffers[step.in[0]].rows == plan::kOutputs;
  const std::uint32_t cols = cols_of(step.in[0]), n = plan_.weights[step.w[weight]].rows;
  const std::vector<double>& x = buffers_[step.in[0]];
  for (std::size_t slot = 0; slot < kMaxAdapters; ++slot) {
    for (const LowRank& pair : adapters_[slot]) {
      if (pair.weight != step.w[weight]) continue;
      for (std::int64_t r = 0; r < rows_of(step.in[0], batch); ++r) {
        const std::int64_t sequence = batch.row_sequence[outputs ? batch.output_rows[r] : r];
        const double scale = batch.adapter_scales[sequence * kMaxAdapters + slot];
        for (std::uint32_t j = 0; j < pair.rank; ++j) {
          double projected = 0.0;
          for (std::uint32_t c = 0; c < cols; ++c)
            projected += pair.a[j * cols + c] * x[r * cols + c];
          for (std::uint32_t i = 0; i < n; ++i) {
            y[r * n + i] += scale * projected * pair.b[j * pair.b_stride + i];
          }
        }
      }
    }
  }
}

void ReferenceProgram::matmul(const plan::Step& step, const Batch& batch) {
  const std::int64_t rows = rows_of(step.in[0], batch);
  const std::vector<double>& x = buffers_[step.in[0]];  // (rows, cols)
  for (int k = 0; k < 3 && step.out[k] != plan::kNone; ++k) {
    std::vector<double> y = multiply(x, rows, step.w[k]);
    add_adapters(step, static_cast<std::size_t>(k), batch, y);
    const std::uint32_t cols = cols_of(step.out[k]);
    std::vector<float> bias(cols, 0.0F);
    if (step.bias[k] != plan::kNone) bias = weight_row(step.bias[k], 0);
    std::vector<double> factor;
    if (step.glu) {
      factor = multiply(x, rows, step.w[1]);
      add_adapters(step, 1, batch, factor);
    }
    std::vector<double>& out = buffers_[step.out[k]];
    for (std::size_t i = 0; i < y.size(); ++i) {
      double value = y[i] + bias[i % cols];
      value =
          step.glu ? gated(step.activation, value, factor[i]) : activate(step.activation, value);
      value *= step.scale;
      if (step.softcap > 0.0F) value = step.softcap * std::tanh(value / step.softcap);
      if (step.residual != plan::kNone) value += buffers_[step.residual][i];
      out[i] = value;
    }
  }
}

}  // namespace orrery::backend::reference
