// norm: RMS or layer norm of rows, with weight, bias and residual; the result as f32 or as operand.
#include <algorithm>

#include "backend/cpu/step.hpp"

namespace orrery::backend::cpu {
namespace {

// The parts of a row that are normed each by itself.
struct Parts {
  std::uint32_t count, width;
  std::uint32_t weight_step;  // floats from a part's weights to the next one's

  Parts(const CompileContext& context, const plan::Step& step, std::uint32_t cols)
      : count(std::max<std::uint32_t>(1, step.heads)), width(cols / count) {
    const bool shared = step.w[0] != plan::kNone && context.info(step.w[0]).cols == width;
    weight_step = shared ? 0 : width;
  }
};

class NormRows : public CpuStep {
 public:
  NormRows(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        residual_(context.buffer(step.residual)),
        outputs_(context.plan->buffers[static_cast<std::size_t>(step.in[0])].rows ==
                 plan::kOutputs),
        parts_(context, step, in_.cols),
        kernels_(*context.kernels->rows) {
    args_.weight = context.vector(step.w[0]);
    args_.bias = context.vector(step.bias[0]);
    args_.n = static_cast<int>(parts_.width);
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
    const float* row = args.out;
    for (std::uint32_t part = 0; part < parts_.count; ++part) {
      kernels_.norm(args);
      args.x += parts_.width;
      args.out += parts_.width;
      if (args.weight != nullptr) args.weight += parts_.weight_step;
      if (args.bias != nullptr) args.bias += parts_.width;
      if (args.residual != nullptr) args.residual += parts_.width;
    }
    if (operand) kernels_.quantize_q8(row, static_cast<int>(in_.cols), out_.bytes(r, worker));
  }

  BufferRef in_, out_, residual_;
  bool outputs_;
  Parts parts_;
  kernels::NormRow args_{};
  const kernels::RowKernels& kernels_;
};

class NormBlocks : public CpuStep {
 public:
  NormBlocks(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        residual_(context.buffer(step.residual)),
        parts_(context, step, in_.cols),
        kernels_(*context.kernels->blocks) {
    args_.weight = context.vector(step.w[0]);
    args_.bias = context.vector(step.bias[0]);
    args_.n = static_cast<int>(parts_.width);
    args_.eps = step.eps;
    args_.offset = step.norm_offset;
    args_.layer_norm = step.norm_kind == plan::NormKind::layer;
    kernel_ = context.kernel_label(true, "norm", plan::kNone);
  }

  void run(const Worker& worker) const override {
    worker.spread(n_blocks(worker.batch->n_tokens), [&](std::int32_t b) {
      for (std::uint32_t part = 0; part < parts_.count; ++part) normalize(b, part);
    });
  }

 private:
  void normalize(std::int32_t b, std::uint32_t part) const {
    const std::size_t at = std::size_t{part} * parts_.width;  // features
    kernels::NormBlock args = args_;
    args.x = in_.block(b) + 32 * at;
    args.residual = residual_ ? residual_.block(b) + 32 * at : nullptr;
    if (args.weight != nullptr) args.weight += std::size_t{part} * parts_.weight_step;
    if (args.bias != nullptr) args.bias += at;
    if (out_.form == plan::Form::f32) {
      args.out_f = out_.block(b) + 32 * at;
    } else {
      // Operands of 32 tokens: 64 bytes a feature, made in runs of 32 features.
      args.out_x = reinterpret_cast<std::byte*>(out_.block(b)) + 64 * at;
    }
    kernels_.norm(args);
  }

  BufferRef in_, out_, residual_;
  Parts parts_;
  kernels::NormBlock args_{};
  const kernels::BlockKernels& kernels_;
};

// Operands of experts that keep decode's class in a prefill: rows, made from token blocks.
class QuantizeBlocksToRows : public CpuStep {
 public:
  QuantizeBlocksToRows(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        kernels_(*context.kernels) {
    kernel_ = context.kernel_label(true, "quantize_rows", plan::kNone);
  }

  std::size_t scratch_bytes() const override { return in_.row_bytes; }

  void run(const Worker& worker) const override {
    const int n = static_cast<int>(in_.cols);
    auto* row = reinterpret_cast<float*>(worker.scratch);
    worker.each(worker.batch->n_tokens, [&](std::int32_t r) {
      kernels_.blocks->block_to_row(in_.block(r / 32), r % 32, n, row);
      kernels_.rows->quantize_q8(row, n, out_.bytes(r, worker));
    });
  }

 private:
  BufferRef in_, out_;
  kernels::KernelSet kernels_;
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
  if (context.buffer(step.in[0]).blocks && !context.buffer(step.out[0]).blocks) {
    return std::make_unique<QuantizeBlocksToRows>(context, step);
  }
  return std::make_unique<QuantizeRows>(context, step);
}

}  // namespace orrery::backend::cpu
