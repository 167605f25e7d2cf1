// add, mul, select_rows and tap: steps that only walk over buffers.
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
        kernel_function_(step.op == plan::Op::add ? context.kernels->rows->add
                                                  : context.kernels->rows->mul) {
    kernel_ = context.kernel_label(false, plan::op_name(step.op), plan::kNone);
  }

  void run(const Worker& worker) const override {
    const std::int32_t rows = batch_rows(*worker.batch, outputs_);
    const std::int32_t padded = a_.blocks ? 32 * n_blocks(rows) : rows;
    for (std::int32_t r = worker.next(); r < padded; r = worker.next()) {
      kernel_function_(a_.row(r), b_.row(r), out_.row(r), static_cast<int>(a_.cols));
    }
  }

 private:
  BufferRef a_, b_, out_;
  bool outputs_;
  void (*kernel_function_)(const float*, const float*, float*, int);
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

StepResult make_select_rows(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<SelectRows>(context, step);
}

}  // namespace orrery::backend::cpu
