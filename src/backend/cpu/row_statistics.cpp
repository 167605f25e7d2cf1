// sparsify and match_rms: steps that look at a whole row before they change it. Sums are made in
// double precision, feature after feature, so that they do not depend on the layout.
#include <algorithm>
#include <cmath>

#include "backend/cpu/step.hpp"

namespace orrery::backend::cpu {
namespace {

// A token's features: neighbours in a row, 32 floats apart in a block.
struct Token {
  float* x;
  std::size_t step;
  float& operator[](std::size_t f) const { return x[f * step]; }
};

class RowStatistics : public CpuStep {
 public:
  RowStatistics(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        other_(context.buffer(step.in[1])),
        residual_(context.buffer(step.residual)),
        out_(context.buffer(step.out[0])),
        eps_(step.eps),
        scale_(step.scale),
        outputs_(context.plan->buffers[static_cast<std::size_t>(step.in[0])].rows ==
                 plan::kOutputs) {
    kernel_ = context.kernel_label(in_.blocks, plan::op_name(step.op), plan::kNone);
  }

  void run(const Worker& worker) const override {
    const std::int32_t rows = batch_rows(*worker.batch, outputs_);
    const std::int32_t padded = in_.blocks ? 32 * n_blocks(rows) : rows;
    worker.spread(padded, [&](std::int32_t t) { run_token(t); });
  }

 protected:
  virtual void run_token(std::int32_t t) const = 0;

  Token token(const BufferRef& buffer, std::int32_t t) const {
    if (buffer.blocks) return {buffer.block(t / 32) + t % 32, 32};
    return {buffer.row(t), 1};
  }
  double mean_square(const Token& x) const {
    double sum = 0.0;
    for (std::size_t f = 0; f < in_.cols; ++f) sum += double{x[f]} * x[f];
    return sum / in_.cols;
  }

  BufferRef in_, other_, residual_, out_;
  float eps_, scale_;
  bool outputs_;
};

class Sparsify : public RowStatistics {
 public:
  using RowStatistics::RowStatistics;

 private:
  void run_token(std::int32_t t) const override {
    const Token x = token(in_, t), y = token(out_, t);
    double sum = 0.0, squares = 0.0;
    for (std::size_t f = 0; f < in_.cols; ++f) sum += x[f];
    const double mean = sum / in_.cols;
    for (std::size_t f = 0; f < in_.cols; ++f) squares += (x[f] - mean) * (x[f] - mean);
    const auto least = static_cast<float>(mean + scale_ * std::sqrt(squares / in_.cols));
    for (std::size_t f = 0; f < in_.cols; ++f) y[f] = std::max(0.0F, x[f] - least);
  }
};

class MatchRms : public RowStatistics {
 public:
  using RowStatistics::RowStatistics;

 private:
  void run_token(std::int32_t t) const override {
    const Token x = token(in_, t), y = token(out_, t);
    const double own = std::max(mean_square(x), double{eps_});
    const auto factor = static_cast<float>(std::sqrt(mean_square(token(other_, t)) / own));
    for (std::size_t f = 0; f < in_.cols; ++f) y[f] = x[f] * factor;
    if (residual_) {
      const Token more = token(residual_, t);
      for (std::size_t f = 0; f < in_.cols; ++f) y[f] += more[f];
    }
    for (std::size_t f = 0; f < in_.cols; ++f) y[f] *= scale_;
  }
};

}  // namespace

StepResult make_sparsify(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<Sparsify>(context, step);
}

StepResult make_match_rms(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<MatchRms>(context, step);
}

}  // namespace orrery::backend::cpu
