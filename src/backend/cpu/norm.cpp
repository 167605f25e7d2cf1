// norm: RMS or layer norm of rows, with weight, bias and residual; the result as f32 or as operand.
#include "backend/cpu/step.hpp"

namespace orrery::backend::cpu {
namespace {

class NormRows : public CpuStep {
 public:
  NormRows(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        residual_(context.buffer(step.residual)),
        outputs_(context.plan->buffers[static_cast<std::size_t>(step.in[0])].rows ==
                 plan::kOutputs),
        kernels_(*context.kernels->rows) {
    args_.weight = context.vector(step.w[0]);
    args_.bias = context.vector(step.bias[0]);
    args_.n = static_cast<int>(in_.cols);
    args_.eps = step.eps;
    args_.offset = step.norm_offset;
    args_.layer_norm = step.norm_kind == plan::NormKind::layer;
    kernel_ = context.kernel_label(false, "norm", plan::kNone);
  }

  std::size_t scratch_bytes() const override { return std::size_t{in_.cols} * 4; }

  void run(const Worker& worker) const override {
    worker.each(batch_rows(*worker.batch, outputs_), [&](std::int32_t r) { normalize(worker, r); });
  }

 private:
  void normalize(const Worker& worker, std::int32_t r) const {
    kernels::NormRow args = args_;
    args.x = in_.row(r, worker);
    args.residual = residual_ ? residual_.row(r, worker) : nullptr;
    const bool operand = out_.form == plan::Form::q8;
    args.out = operand ? reinterpret_cast<float*>(worker.scratch) : out_.row(r, worker);
    kernels_.norm(args);
    if (operand) kernels_.quantize_q8(args.out, args.n, out_.bytes(r, worker));
  }

  BufferRef in_, out_, residual_;
  bool outputs_;
  kernels::NormRow args_{};
  const kernels::RowKernels& kernels_;
};

class NormBlocks : public CpuStep {
 public:
  NormBlocks(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        residual_(context.buffer(step.residual)),
        kernels_(*context.kernels->blocks) {
    args_.weight = context.vector(step.w[0]);
    args_.bias = context.vector(step.bias[0]);
    args_.n = static_cast<int>(in_.cols);
    args_.eps = step.eps;
    args_.offset = step.norm_offset;
    args_.layer_norm = step.norm_kind == plan::NormKind::layer;
    kernel_ = context.kernel_label(true, "norm", plan::kNone);
  }

  void run(const Worker& worker) const override {
    worker.spread(n_blocks(worker.batch->n_tokens), [&](std::int32_t b) {
      kernels::NormBlock args = args_;
      args.x = in_.block(b);
      args.residual = residual_ ? residual_.block(b) : nullptr;
      if (out_.form == plan::Form::f32) {
        args.out_f = out_.block(b);
      } else {
        args.out_x = out_.block(b);
      }
      kernels_.norm(args);
    });
  }

 private:
  BufferRef in_, out_, residual_;
  kernels::NormBlock args_{};
  const kernels::BlockKernels& kernels_;
};

class QuantizeRows : public CpuStep {
 public:
  QuantizeRows(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        outputs_(context.plan->buffers[static_cast<std::size_t>(step.in[0])].rows ==
                 plan::kOutputs),
        kernels_(*context.kernels) {
    kernel_ = context.kernel_label(in_.blocks, "quantize", plan::kNone);
  }

  void run(const Worker& worker) const override {
    const int n = static_cast<int>(in_.cols);
    const std::int32_t rows = batch_rows(*worker.batch, outputs_);
    if (in_.blocks) {
      worker.spread(n_blocks(rows),
                    [&](std::int32_t b) { kernels_.blocks->to_x(in_.block(b), n, out_.block(b)); });
      return;
    }
    worker.each(rows, [&](std::int32_t r) {
      kernels_.rows->quantize_q8(in_.row(r, worker), n, out_.bytes(r, worker));
    });
  }

 private:
  BufferRef in_, out_;
  bool outputs_;
  kernels::KernelSet kernels_;
};

}  // namespace

StepResult make_norm(const CompileContext& context, const plan::Step& step) {
  if (context.buffer(step.in[0]).blocks) return std::make_unique<NormBlocks>(context, step);
  return std::make_unique<NormRows>(context, step);
}

StepResult make_quantize_rows(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<QuantizeRows>(context, step);
}

}  // namespace orrery::backend::cpu
