// moe_matmul of few rows (classes i8 and f32): one list of tasks over (expert, weight rows). What a
// row gives depends on no other, so a token's bits do not depend on its neighbours' experts.
#include <algorithm>
#include <cstring>

#include "backend/cpu/expert_lists.hpp"
#include "backend/cpu/row_product.hpp"
#include "base/checked.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::uint32_t kMostChunkRows = 256;

class MoeMatmulRows : public CpuStep {
 public:
  MoeMatmulRows(const CompileContext& context, const plan::Step& step)
      : counts_(*context.plan, step),
        in_(context.buffer(step.in[0])),
        routes_(context.buffer(step.in[1])),
        out_(context.buffer(step.out[0])),
        product_(context, step),
        of_experts_(context.order(step.in[0]) == plan::Order::experts),
        weigh_input_(step.weigh_input),
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
    const Grid grid(*this, lists, worker.threads);
    worker.spread(grid.items, [&](std::int32_t i) {
      const std::uint32_t begin = grid.begin(i);
      run_chunk(worker, lists, grid.list(i), begin, std::min(grid.chunk_rows, rows_ - begin));
    });
  }

  // Of one token, between gate and up and what follows them: before, its experts are not known.
  void fetch(const Worker& worker) const override {
    if (!of_experts_ || worker.batch->n_tokens != 1) return;
    const ExpertLists lists(counts_, routes_, worker, worker.scratch);
    const Grid grid(*this, lists, worker.threads);
    const std::int32_t i = worker.ranges(grid.items).first(worker.thread);
    if (i >= grid.items) return;
    fetch_rows(matrices_[static_cast<std::size_t>(grid.list(i).expert)].row(grid.begin(i)));
  }

 private:
  // Tasks: chunks of the weight rows of each list's expert, about eight a thread as in matmul.
  struct Grid {
    std::span<const ExpertLists::List> lists;
    std::uint32_t chunk_rows;
    std::int32_t chunks, items;  // of an expert, of all

    Grid(const MoeMatmulRows& step, const ExpertLists& all, int threads) : lists(all.lists()) {
      const std::uint64_t total = std::uint64_t{step.rows_} * lists.size();
      const std::uint64_t fair = total / (8 * static_cast<std::uint64_t>(threads));
      chunk_rows =
          static_cast<std::uint32_t>(std::clamp<std::uint64_t>(fair / 32 * 32, 32, kMostChunkRows));
      chunks = static_cast<std::int32_t>(ceil_div(step.rows_, chunk_rows));
      items = chunks * static_cast<std::int32_t>(lists.size());
    }
    const ExpertLists::List& list(std::int32_t i) const {
      return lists[static_cast<std::size_t>(i / chunks)];
    }
    std::uint32_t begin(std::int32_t i) const {
      return static_cast<std::uint32_t>(i % chunks) * chunk_rows;
    }
  };

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
      OperandRows rows{operand(worker, lists, r, m, gathered), in_.row_bytes, m, r};
      float factors[kAtOnce];
      if (weigh_input_) {
        for (std::int32_t i = 0; i < m; ++i) factors[i] = lists.weight(r + i);
        rows.factors = factors;
      }
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
  bool of_experts_, weigh_input_;
  std::uint32_t rows_;
  std::vector<Matrix> matrices_, up_;  // by expert
};

}  // namespace

StepResult make_moe_matmul(const CompileContext& context, const plan::Step& step) {
  ORRERY_TRY_VOID(RowProduct::check(context, step));
  return std::make_unique<MoeMatmulRows>(context, step);
}

}  // namespace orrery::backend::cpu
