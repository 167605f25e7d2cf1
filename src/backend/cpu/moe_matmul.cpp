// moe_matmul of few rows (classes i8 and f32): one list of tasks over (expert, weight rows). What a
// row gives depends on no other, so a token's bits do not depend on its neighbours' experts.
#include <algorithm>
#include <cstring>

#include "backend/cpu/expert_lists.hpp"
#include "backend/cpu/row_product.hpp"
#include "base/checked.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::uint32_t kMostChunkRows = 1024;

class MoeMatmulRows : public CpuStep {
 public:
  MoeMatmulRows(const CompileContext& context, const plan::Step& step)
      : counts_(*context.plan, step),
        in_(context.buffer(step.in[0])),
        routes_(context.buffer(step.in[1])),
        out_(context.buffer(step.out[0])),
        product_(context, step),
        of_experts_(context.order(step.in[0]) == plan::Order::experts),
        rows_(context.info(step.w[0]).rows) {
    matrices_ = context.experts(step, 0);
    if (step.glu) up_ = context.experts(step, 1);
    const bool i8 = step.number_class == plan::NumberClass::i8;
    kernel_ = context.kernel_label(false, i8 ? "moe_matmul_i8" : "moe_matmul_f32", step.w[0]);
  }

  std::size_t scratch_bytes() const override {
    return ExpertLists::scratch_bytes(counts_) + gathered_bytes() +
           RowProduct::scratch_bytes(std::min(kMostChunkRows, rows_));
  }

  void run(const Worker& worker) const override {
    const ExpertLists lists(counts_, routes_, worker, worker.scratch);
    // About eight chunks a thread, as in matmul.
    const std::uint64_t total = std::uint64_t{rows_} * lists.lists().size();
    const std::uint64_t fair = total / (8 * static_cast<std::uint64_t>(worker.threads));
    const auto chunk_rows =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(fair / 32 * 32, 32, kMostChunkRows));
    const auto chunks = static_cast<std::int32_t>(ceil_div(rows_, chunk_rows));
    const auto n_lists = static_cast<std::int32_t>(lists.lists().size());
    worker.spread(n_lists * chunks, [&](std::int32_t i) {
      const std::uint32_t begin = static_cast<std::uint32_t>(i % chunks) * chunk_rows;
      run_chunk(worker, lists, lists.lists()[static_cast<std::size_t>(i / chunks)], begin,
                std::min(chunk_rows, rows_ - begin));
    });
  }

 private:
  std::size_t gathered_bytes() const {
    return of_experts_ ? 0 : align_up(RowProduct::kRowsAtOnce * in_.row_bytes, 64);
  }

  // Weight rows [begin, begin + n) of an expert times all rows of its list.
  void run_chunk(const Worker& worker, const ExpertLists& lists, const ExpertLists::List& list,
                 std::uint32_t begin, std::uint32_t n) const {
    std::byte* gathered = worker.scratch + ExpertLists::scratch_bytes(counts_);
    const auto expert = static_cast<std::size_t>(list.expert);
    const WeightRows weights{&matrices_[expert], up_.empty() ? nullptr : &up_[expert], begin, n};
    constexpr std::int32_t kAtOnce = RowProduct::kRowsAtOnce;
    for (std::int32_t r = list.begin; r < list.end; r += kAtOnce) {
      const std::int32_t m = std::min(kAtOnce, list.end - r);
      const OperandRows rows{operand(worker, lists, r, m, gathered), in_.row_bytes, m, r};
      product_.run(worker, weights, rows, out_, gathered + gathered_bytes());
    }
  }

  // The operand of rows [r, r + m): rows of experts lie side by side, those of tokens are brought
  // together.
  const std::byte* operand(const Worker& worker, const ExpertLists& lists, std::int32_t r,
                           std::int32_t m, std::byte* gathered) const {
    if (of_experts_) return in_.bytes(r);
    if (m == 1) return in_.bytes(lists.token(r), worker);
    for (std::int32_t i = 0; i < m; ++i) {
      std::memcpy(gathered + static_cast<std::size_t>(i) * in_.row_bytes,
                  in_.bytes(lists.token(r + i)), in_.row_bytes);
    }
    return gathered;
  }

  ExpertCounts counts_;
  BufferRef in_, routes_, out_;
  RowProduct product_;
  bool of_experts_;
  std::uint32_t rows_;
  std::vector<Matrix> matrices_, up_;  // by expert
};

}  // namespace

StepResult make_moe_matmul(const CompileContext& context, const plan::Step& step) {
  ORRERY_TRY_VOID(RowProduct::check(context, step));
  return std::make_unique<MoeMatmulRows>(context, step);
}

}  // namespace orrery::backend::cpu
