// matmul of prefill that keeps decode's class: token blocks are turned into rows, which the row
// kernels multiply. For few weight rows; results are rows.
#include <algorithm>

#include "backend/cpu/row_product.hpp"
#include "base/checked.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::uint32_t kChunkRows = 256;  // weight rows at once

class MatmulAsDecode : public CpuStep {
 public:
  MatmulAsDecode(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        i8_(step.number_class == plan::NumberClass::i8),
        product_(context, step),
        adapted_(context, step),
        kernels_(*context.kernels) {
    for (std::size_t i = 0; i < step.w.size() && step.w[i] != plan::kNone; ++i) {
      parts_.push_back(
          {context.matrix(step, i), context.info(step.w[i]).rows, context.buffer(step.out[i])});
    }
    kernel_ = context.kernel_label(false, i8_ ? "matmul_i8" : "matmul_f32", step.w[0]);
  }

  std::size_t scratch_bytes() const override {
    return 32 * (in_.row_bytes + operand_bytes()) + RowProduct::scratch_bytes(kChunkRows);
  }

  void run(const Worker& worker) const override {
    worker.spread(n_blocks(worker.batch->n_tokens), [&](std::int32_t b) {
      const std::int32_t m = std::min(32, worker.batch->n_tokens - 32 * b);
      std::byte* rows = worker.scratch;  // (32, k) f32
      std::byte* operand = i8_ ? rows + 32 * in_.row_bytes : rows;
      std::byte* scratch = rows + 32 * (in_.row_bytes + operand_bytes());
      const std::uint64_t stride = i8_ ? operand_bytes() : in_.row_bytes;
      const int k = static_cast<int>(in_.cols);
      for (std::int32_t i = 0; i < m; ++i) {
        auto* row = reinterpret_cast<float*>(rows + static_cast<std::uint64_t>(i) * in_.row_bytes);
        kernels_.blocks->block_to_row(in_.block(b), i, k, row);
        if (i8_)
          kernels_.rows->quantize_q8(row, k, operand + static_cast<std::uint64_t>(i) * stride);
      }
      const RowAdapters adapters(adapted_, worker, {operand, stride, m, 32 * b});
      for (std::size_t p = 0; p < parts_.size(); ++p) {
        const Part& part = parts_[p];
        for (std::uint32_t r = 0; r < part.rows; r += kChunkRows) {
          product_.run(worker, {&part.w, nullptr, r, std::min(kChunkRows, part.rows - r), p},
                       {operand, stride, m, 32 * b, &adapters}, part.out, scratch);
        }
      }
    });
  }

 private:
  struct Part {
    Matrix w;
    std::uint32_t rows;
    BufferRef out;
  };
  std::uint64_t operand_bytes() const {
    return i8_ ? plan::form_row_bytes(plan::Form::q8, in_.cols) : 0;
  }

  BufferRef in_;
  bool i8_;
  RowProduct product_;
  AdaptedStep adapted_;
  kernels::KernelSet kernels_;
  std::vector<Part> parts_;
};

}  // namespace

StepResult make_matmul_as_decode(const CompileContext& context, const plan::Step& step) {
  ORRERY_TRY_VOID(RowProduct::check(context, step));
  return std::make_unique<MatmulAsDecode>(context, step);
}

}  // namespace orrery::backend::cpu
