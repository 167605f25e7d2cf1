// Steps that treat every row by itself.
#include <algorithm>
#include <cmath>

#include "backend/reference/reference_program.hpp"
#include "base/check.hpp"

namespace orrery::backend::reference {

void rms_norm(double* x, std::uint32_t n, const float* weight, double offset, double eps) {
  double sum = 0.0;
  for (std::uint32_t i = 0; i < n; ++i) sum += x[i] * x[i];
  const double factor = 1.0 / std::sqrt(sum / n + eps);
  for (std::uint32_t i = 0; i < n; ++i) {
    x[i] *= factor * (weight == nullptr ? 1.0 : double{weight[i]} + offset);
  }
}

namespace {

// (x - mean) / sqrt(variance + eps) * (weight + offset)
void layer_norm(double* x, std::uint32_t n, const float* weight, double offset, double eps) {
  double sum = 0.0;
  for (std::uint32_t i = 0; i < n; ++i) sum += x[i];
  const double mean = sum / n;
  double squares = 0.0;
  for (std::uint32_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double factor = 1.0 / std::sqrt(squares / n + eps);
  for (std::uint32_t i = 0; i < n; ++i) {
    x[i] = (x[i] - mean) * factor * (weight == nullptr ? 1.0 : weight[i] + offset);
  }
}

}  // namespace

void ReferenceProgram::embed(const plan::Step& step, const Batch& batch) {
  const std::uint32_t cols = cols_of(step.out[0]);
  double* out = buffers_[step.out[0]].data();  // (n_tokens, cols)
  for (std::int32_t row = 0; row < batch.n_tokens; ++row, out += cols) {
    const auto id = static_cast<std::uint32_t>(batch.ids[row]);
    const std::vector<float> token =
        weight_row(step.w[0], id < plan_.weights[step.w[0]].rows ? id : 0);
    for (std::uint32_t i = 0; i < cols; ++i) out[i] = double{step.scale} * token[i];
    const auto add = [&](plan::WeightId table, std::int32_t at) {
      if (table == plan::kNone) return;
      const std::vector<float> values = weight_row(table, static_cast<std::uint32_t>(at));
      for (std::uint32_t i = 0; i < cols; ++i) out[i] += values[i];
    };
    add(step.w[1], batch.positions[row]);
    const bool typed = step.w[2] != plan::kNone && plan_.weights[step.w[2]].rows > 1;
    add(step.w[2], typed && batch.types != nullptr ? batch.types[row] : 0);
  }
}

void ReferenceProgram::norm(const plan::Step& step, const Batch& batch) {
  const std::uint32_t cols = cols_of(step.in[0]);
  const std::int64_t rows = rows_of(step.in[0], batch);
  std::vector<float> weight;
  if (step.w[0] != plan::kNone) weight = weight_row(step.w[0], 0);
  std::vector<float> bias(cols, 0.0F);
  if (step.bias[0] != plan::kNone) bias = weight_row(step.bias[0], 0);
  const auto normalise = step.norm_kind == plan::NormKind::rms ? rms_norm : layer_norm;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::size_t begin = static_cast<std::size_t>(row) * cols;
    const double* in = &buffers_[step.in[0]][begin];
    double* out = &buffers_[step.out[0]][begin];
    std::copy(in, in + cols, out);
    const std::uint32_t parts = std::max<std::uint32_t>(1, step.heads), width = cols / parts;
    for (std::uint32_t part = 0; part < parts; ++part) {
      const float* w = weight.empty() ? nullptr : &weight[weight.size() == cols ? part * width : 0];
      normalise(out + part * width, width, w, step.norm_offset, step.eps);
    }
    for (std::uint32_t i = 0; i < cols; ++i) {
      out[i] += bias[i];
      if (step.residual != plan::kNone) out[i] += buffers_[step.residual][begin + i];
    }
  }
}

void ReferenceProgram::combine(const plan::Step& step, const Batch& batch) {
  const std::size_t n = static_cast<std::size_t>(rows_of(step.in[0], batch)) * cols_of(step.in[0]);
  const std::vector<double>& a = buffers_[step.in[0]];
  std::vector<double>& out = buffers_[step.out[0]];
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = a[i];  // quantize_rows: the oracle does not round
    if (step.op == plan::Op::add) out[i] = step.scale * (a[i] + buffers_[step.in[1]][i]);
    if (step.op == plan::Op::mul) {
      out[i] = activate(step.activation, a[i]) * buffers_[step.in[1]][i];
    }
  }
}

void ReferenceProgram::split(const plan::Step& step, const Batch& batch) {
  const std::vector<double>& in = buffers_[step.in[0]];
  const std::uint32_t part = cols_of(step.in[0]) / step.heads;
  for (std::int64_t row = 0; row < rows_of(step.in[0], batch); ++row) {
    std::uint32_t begin = 0, joined = 0;  // of a section in a part, and among all joined
    for (std::size_t i = 0; i < step.widths.size() && step.widths[i] != 0; ++i) {
      const std::uint32_t width = step.widths[i];
      const bool last = i + 1 == step.widths.size() || step.widths[i + 1] == 0;
      const plan::BufferId to = step.out[last ? 1 : 0];
      double* out = &buffers_[to][static_cast<std::size_t>(row) * cols_of(to)];
      for (std::uint32_t c = 0; c < width * step.heads; ++c) {
        const std::size_t from = std::size_t{c / width} * part + begin + c % width;
        out[(last ? 0 : joined) + c] =
            in[static_cast<std::size_t>(row) * cols_of(step.in[0]) + from];
      }
      begin += width;
      joined += width * step.heads;
    }
  }
}

void ReferenceProgram::select_rows(const plan::Step& step, const Batch& batch) {
  const std::uint32_t cols = cols_of(step.in[0]);
  for (std::int32_t row = 0; row < batch.n_outputs; ++row) {
    const std::int32_t source = batch.output_rows[row];
    ORRERY_CHECK(source >= 0 && source < batch.n_tokens);
    const double* in = &buffers_[step.in[0]][static_cast<std::size_t>(source) * cols];
    std::copy(in, in + cols, &buffers_[step.out[0]][static_cast<std::size_t>(row) * cols]);
  }
}

void ReferenceProgram::pool(const plan::Step& step, const Batch& batch) {
  ORRERY_CHECK(batch.n_outputs == 1 && batch.n_tokens > 0);
  const std::uint32_t cols = cols_of(step.in[0]);
  const std::vector<double>& in = buffers_[step.in[0]];  // (n_tokens, cols)
  const bool mean = step.pool_kind == plan::PoolKind::mean;
  const std::int32_t first = step.pool_kind == plan::PoolKind::last ? batch.n_tokens - 1 : 0;
  const std::int32_t count = mean ? batch.n_tokens : 1;
  for (std::uint32_t i = 0; i < cols; ++i) {
    double sum = 0.0;
    for (std::int32_t row = first; row < first + count; ++row) {
      sum += in[static_cast<std::size_t>(row) * cols + i];
    }
    buffers_[step.out[0]][i] = sum / count;
  }
}

}  // namespace orrery::backend::reference
