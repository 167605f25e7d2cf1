// add, mul, split, select_rows and tap: steps that only walk over buffers.
#include <algorithm>
#include <cstring>

#include "backend/cpu/step.hpp"

namespace orrery::backend::cpu {
namespace {

// The order of elements is the same on both sides, so rows and blocks are one flat array.
class Elementwise : public CpuStep {
 public:
  Elementwise(const CompileContext& context, const plan::Step& step)
      : a_(context.buffer(step.in[0])),
        b_(context.buffer(step.in[1])),
        out_(context.buffer(step.out[0])),
        outputs_(context.plan->buffers[static_cast<std::size_t>(step.in[0])].rows ==
                 plan::kOutputs),
        is_add_(step.op == plan::Op::add),
        scale_(step.scale),
        activation_(activation_kind(step.activation)),
        kernels_(*context.kernels->rows) {
    kernel_ = context.kernel_label(false, plan::op_name(step.op), plan::kNone);
  }

  void run(const Worker& worker) const override {
    const std::int32_t rows = batch_rows(*worker.batch, outputs_);
    const std::int32_t padded = a_.blocks ? 32 * n_blocks(rows) : rows;
    const int n = static_cast<int>(a_.cols);
    for (std::int32_t r = worker.next(); r < padded; r = worker.next()) {
      if (is_add_) {
        kernels_.add(a_.row(r), b_.row(r), out_.row(r), n);
        if (scale_ != 1.0F) kernels_.scale_add(out_.row(r), scale_, nullptr, n);
      } else if (activation_ == kernels::ActivationKind::none) {
        kernels_.mul(a_.row(r), b_.row(r), out_.row(r), n);
      } else {
        kernels_.glu(activation_, a_.row(r), b_.row(r), out_.row(r), n);
      }
    }
  }

 private:
  BufferRef a_, b_, out_;
  bool outputs_, is_add_;
  float scale_;
  kernels::ActivationKind activation_;
  const kernels::RowKernels& kernels_;
};

// Sections of a row lie together whether rows or features are outermost: a column is one float of a
// row, or 32 of a block.
class Split : public CpuStep {
 public:
  Split(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        first_(context.buffer(step.out[0])),
        last_(context.buffer(step.out[1])),
        heads_(step.heads),
        widths_(step.widths),
        outputs_(context.plan->buffers[static_cast<std::size_t>(step.in[0])].rows ==
                 plan::kOutputs) {
    kernel_ = context.kernel_label(in_.blocks, "split", plan::kNone);
  }

  void run(const Worker& worker) const override {
    const std::int32_t rows = batch_rows(*worker.batch, outputs_);
    const std::size_t column = in_.blocks ? 32 : 1;
    worker.spread(in_.blocks ? n_blocks(rows) : rows, [&](std::int32_t i) {
      if (in_.blocks) {
        split(in_.block(i), first_.block(i), last_.block(i), column);
      } else {
        split(in_.row(i), first_.row(i), last_.row(i), column);
      }
    });
  }

 private:
  void split(const float* in, float* first, float* last, std::size_t column) const {
    const std::size_t part = in_.cols / heads_ * column;
    for (std::size_t i = 0; i < widths_.size() && widths_[i] != 0; ++i) {
      const bool is_last = i + 1 == widths_.size() || widths_[i + 1] == 0;
      float*& to = is_last ? last : first;
      const std::size_t n = widths_[i] * column;
      for (std::size_t head = 0; head < heads_; ++head, to += n) {
        std::memcpy(to, in + head * part, n * sizeof(float));
      }
      in += n;
    }
  }

  BufferRef in_, first_, last_;
  std::uint32_t heads_;
  std::array<std::uint32_t, 4> widths_;
  bool outputs_;
};

class SelectRows : public CpuStep {
 public:
  SelectRows(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        kernels_(*context.kernels) {
    kernel_ = context.kernel_label(in_.blocks, "select_rows", plan::kNone);
  }

  void run(const Worker& worker) const override {
    const Batch& batch = *worker.batch;
    worker.each(batch.n_outputs, [&](std::int32_t i) {
      const std::int32_t row = batch.output_rows[i];
      if (in_.blocks) {
        kernels_.blocks->block_to_row(in_.block(row / 32), row % 32, static_cast<int>(in_.cols),
                                      out_.row(i, worker));
      } else {
        std::memcpy(out_.row(i, worker), in_.row(row, worker), std::size_t{in_.cols} * 4);
      }
    });
  }

 private:
  BufferRef in_, out_;
  kernels::KernelSet kernels_;
};

class Tap : public CpuStep {
 public:
  Tap() { kernel_ = "tap"; }
  void run(const Worker&) const override {}
};

}  // namespace

StepResult make_elementwise(const CompileContext& context, const plan::Step& step) {
  if (step.op == plan::Op::tap) return std::make_unique<Tap>();
  return std::make_unique<Elementwise>(context, step);
}

StepResult make_split(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<Split>(context, step);
}

StepResult make_select_rows(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<SelectRows>(context, step);
}

}  // namespace orrery::backend::cpu
