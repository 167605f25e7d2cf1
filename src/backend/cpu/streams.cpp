// columns, join and the steps of AltUp (plan.hpp): parts of rows that are copied and mixed.
//
// Rows and blocks of 32 tokens are one thing here: a feature is `lanes` neighbouring floats, one a
// token. A part of a row is a range of features in both.
#include <algorithm>

#include "backend/cpu/step.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::size_t kBlock = 32;

class StreamStep : public CpuStep {
 public:
  StreamStep(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        other_(context.buffer(step.in[1])),
        out_(context.buffer(step.out[0])),
        out_active_(context.buffer(step.out[1])),
        lanes_(in_.blocks ? kBlock : 1),
        outputs_(context.plan->buffers[static_cast<std::size_t>(step.in[0])].rows ==
                 plan::kOutputs) {
    kernel_ = context.kernel_label(in_.blocks, plan::op_name(step.op), plan::kNone);
  }

  void run(const Worker& worker) const override {
    const std::int32_t rows = batch_rows(*worker.batch, outputs_);
    worker.spread(in_.blocks ? n_blocks(rows) : rows, [&](std::int32_t i) { run_item(worker, i); });
  }

 protected:
  // One row, or one block.
  virtual void run_item(const Worker& worker, std::int32_t i) const = 0;

  float* at(const BufferRef& buffer, std::int32_t i) const {
    return buffer.blocks ? buffer.block(i) : buffer.row(i);
  }

  BufferRef in_, other_, out_, out_active_;
  std::size_t lanes_;
  bool outputs_;
};

class Columns : public StreamStep {
 public:
  Columns(const CompileContext& context, const plan::Step& step)
      : StreamStep(context, step), begin_(step.begin) {}

 private:
  void run_item(const Worker&, std::int32_t i) const override {
    std::copy_n(at(in_, i) + begin_ * lanes_, out_.cols * lanes_, at(out_, i));
  }
  std::size_t begin_;
};

class Join : public StreamStep {
 public:
  using StreamStep::StreamStep;

 private:
  void run_item(const Worker&, std::int32_t i) const override {
    float* rest = std::copy_n(at(in_, i), in_.cols * lanes_, at(out_, i));
    std::copy_n(at(other_, i), other_.cols * lanes_, rest);
  }
};

// y += c x, where c has a factor for each lane.
template <std::size_t kLanes>
void add_scaled(const float* x, const float* c, std::size_t features, float* y) {
  for (std::size_t f = 0; f < features; ++f, x += kLanes, y += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) y[l] += c[l] * x[l];
  }
}

class AltUp : public StreamStep {
 public:
  AltUp(const CompileContext& context, const plan::Step& step, plan::BufferId router)
      : StreamStep(context, step),
        router_(context.buffer(router)),
        weights_(context.vector(step.w[0])),
        n_(router_.cols),
        n_coefficients_(context.info(step.w[0]).rows),
        width_(out_active_.cols),
        active_(step.active) {}

  std::size_t scratch_bytes() const override { return n_coefficients_ * lanes_ * sizeof(float); }

 protected:
  // (coefficients, lanes). A block's last places may have no token: theirs are zero.
  float* coefficients(const Worker& worker, std::int32_t i) const {
    auto* c = reinterpret_cast<float*>(worker.scratch);
    const std::size_t first = static_cast<std::size_t>(i) * lanes_;
    const auto tokens = static_cast<std::size_t>(worker.batch->n_tokens);
    std::fill_n(c, n_coefficients_ * lanes_, 0.0F);
    for (std::size_t l = 0; l < lanes_ && first + l < tokens; ++l) {
      const float* r = router_.row(static_cast<std::int64_t>(first + l));
      for (std::size_t k = 0; k < n_coefficients_; ++k) {
        for (std::size_t j = 0; j < n_; ++j) c[k * lanes_ + l] += weights_[k * n_ + j] * r[j];
      }
    }
    return c;
  }
  void mix(const float* x, const float* c, float* y) const {
    lanes_ == 1 ? add_scaled<1>(x, c, width_, y) : add_scaled<kBlock>(x, c, width_, y);
  }
  std::size_t stream_floats() const { return width_ * lanes_; }

  BufferRef router_;
  const float* weights_;
  std::size_t n_, n_coefficients_, width_, active_;
};

class AltUpPredict : public AltUp {
 public:
  AltUpPredict(const CompileContext& context, const plan::Step& step)
      : AltUp(context, step, step.in[1]) {}

 private:
  void run_item(const Worker& worker, std::int32_t i) const override {
    const float* c = coefficients(worker, i);
    const float* in = at(in_, i);
    float* out = at(out_, i);
    const std::size_t stream = stream_floats();
    std::copy_n(in, n_ * stream, out);
    for (std::size_t j = 0; j < n_; ++j) {
      for (std::size_t k = 0; k < n_; ++k) {
        mix(in + k * stream, c + (n_ * j + k) * lanes_, out + j * stream);
      }
    }
    std::copy_n(out + active_ * stream, stream, at(out_active_, i));
  }
};

class AltUpCorrect : public AltUp {
 public:
  AltUpCorrect(const CompileContext& context, const plan::Step& step)
      : AltUp(context, step, step.in[2]), scale_(context.vector(step.w[1])) {}

 private:
  void run_item(const Worker& worker, std::int32_t i) const override {
    float* c = coefficients(worker, i);
    for (std::size_t k = 0; k < n_ * lanes_; ++k) c[k] += 1.0F;
    const float* in = at(in_, i);
    const float* activated = at(other_, i);
    float* out = at(out_, i);
    float* news = at(out_active_, i);  // until the scaled stream takes its place
    const std::size_t stream = stream_floats();
    for (std::size_t f = 0; f < stream; ++f) news[f] = activated[f] - in[active_ * stream + f];
    std::copy_n(in, n_ * stream, out);
    for (std::size_t j = 0; j < n_; ++j) mix(news, c + j * lanes_, out + j * stream);
    for (std::size_t f = 0; f < stream; ++f) {
      news[f] = out[active_ * stream + f] * scale_[f / lanes_];
    }
  }
  const float* scale_;  // (width)
};

class AltUpAdd : public StreamStep {
 public:
  using StreamStep::StreamStep;

 private:
  void run_item(const Worker&, std::int32_t i) const override {
    const std::size_t stream = other_.cols * lanes_, all = in_.cols * lanes_;
    const float* in = at(in_, i);
    const float* x = at(other_, i);
    float* out = at(out_, i);
    std::copy_n(in, stream, out);
    for (std::size_t begin = stream; begin < all; begin += stream) {
      for (std::size_t f = 0; f < stream; ++f) out[begin + f] = in[begin + f] + x[f];
    }
  }
};

}  // namespace

StepResult make_columns(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<Columns>(context, step);
}

StepResult make_join(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<Join>(context, step);
}

StepResult make_altup_predict(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<AltUpPredict>(context, step);
}

StepResult make_altup_correct(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<AltUpCorrect>(context, step);
}

StepResult make_altup_add(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<AltUpAdd>(context, step);
}

}  // namespace orrery::backend::cpu
