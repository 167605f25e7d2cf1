// moe_combine: what a token's experts gave, weighed and summed in the order of its routes, then the
// shared expert and the residual.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/expert_lists.hpp"

namespace orrery::backend::cpu {
namespace {

class MoeCombine : public CpuStep {
 public:
  MoeCombine(const CompileContext& context, const plan::Step& step)
      : counts_(*context.plan, step),
        in_(context.buffer(step.in[0])),
        routes_(context.buffer(step.in[1])),
        shared_(context.buffer(step.in[2])),
        residual_(context.buffer(step.residual)),
        out_(context.buffer(step.out[0])),
        scale_(step.scale),
        bias_(context.vector(step.bias[0])),
        weighed_(step.weigh_input),
        kernels_(*context.kernels) {
    kernel_ = context.kernel_label(false, "moe_combine", plan::kNone);
  }

  std::size_t scratch_bytes() const override {
    const std::size_t rows = out_.blocks ? 34 : 2;
    return ExpertLists::scratch_bytes(counts_) + rows * out_.row_bytes;
  }

  void run(const Worker& worker) const override {
    const ExpertLists lists(counts_, routes_, worker, worker.scratch);
    const std::int32_t tokens = worker.batch->n_tokens;
    if (!out_.blocks) {
      worker.each(tokens, [&](std::int32_t t) {
        const float* residual = residual_ ? residual_.row(t, worker) : nullptr;
        const float* shared = shared_ ? shared_.row(t, worker) : nullptr;
        const auto [sum, other] = rows_of(worker);
        combine(worker, lists, t, shared, residual, {sum, other}, out_.row(t, worker));
      });
      return;
    }
    worker.spread(n_blocks(tokens), [&](std::int32_t b) { combine_block(worker, lists, b); });
  }

 private:
  using TwoRows = std::pair<float*, float*>;

  TwoRows rows_of(const Worker& worker) const {
    auto* rows = reinterpret_cast<float*>(worker.scratch + ExpertLists::scratch_bytes(counts_));
    return {rows, rows + out_.cols};
  }

  void combine(const Worker& worker, const ExpertLists& lists, std::int32_t t, const float* shared,
               const float* residual, TwoRows rows, float* out) const {
    const int n = static_cast<int>(out_.cols);
    const float* weights = routes_.row(t, worker) + counts_.used;
    auto [sum, next] = rows;
    const float* so_far = nullptr;
    const auto add = [&](const float* row, float weight) {
      std::memcpy(next, row, out_.row_bytes);
      kernels_.rows->scale_add(next, weight, so_far, n);
      so_far = next;
      std::swap(sum, next);
    };
    for (std::uint32_t j = 0; j < counts_.used; ++j) {
      add(in_.row(lists.row(t, j)), weighed_ ? 1.0F : weights[j]);
    }
    if (shared != nullptr) add(shared, weights[counts_.used]);
    std::memcpy(out, so_far, out_.row_bytes);
    if (bias_ != nullptr) kernels_.rows->add(out, bias_, out, n);
    kernels_.rows->scale_add(out, scale_, residual, n);
  }

  void combine_block(const Worker& worker, const ExpertLists& lists, std::int32_t b) const {
    const int n = static_cast<int>(out_.cols);
    const std::size_t cols = out_.cols;
    const TwoRows rows = rows_of(worker);
    float* block_rows = rows.second + cols;  // (32, cols)
    const std::int32_t count = std::min(32, worker.batch->n_tokens - 32 * b);
    for (std::int32_t i = 0; i < count; ++i) {
      float* out = block_rows + static_cast<std::size_t>(i) * cols;
      if (shared_) kernels_.blocks->block_to_row(shared_.block(b), i, n, out);
      combine(worker, lists, 32 * b + i, shared_ ? out : nullptr, nullptr, rows, out);
    }
    kernels_.blocks->rows_to_block(block_rows, cols, count, n, out_.block(b));
    if (!residual_) return;
    kernels_.rows->add(out_.block(b), residual_.block(b), out_.block(b), 32 * n);
  }

  ExpertCounts counts_;
  BufferRef in_, routes_, shared_, residual_, out_;
  float scale_;
  const float* bias_;
  bool weighed_;  // the rows are
  kernels::KernelSet kernels_;
};

}  // namespace

StepResult make_moe_combine(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<MoeCombine>(context, step);
}

}  // namespace orrery::backend::cpu
