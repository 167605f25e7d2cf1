// moe_matmul of prefill (class b16): a task is some weight rows of one expert times all blocks of
// 32 of its tokens, so that the rows are unpacked once.
#include <algorithm>
#include <cstring>

#include "backend/cpu/expert_lists.hpp"
#include "backend/cpu/row_product.hpp"
#include "base/checked.hpp"
#include "tensor/half.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::int32_t kBlocksAtOnce = 8;  // that are brought together for one pass over the rows
constexpr int kXStep = 2048;               // bytes of an X block for 32 features

class MoeMatmulBlocks : public CpuStep {
 public:
  MoeMatmulBlocks(const CompileContext& context, const plan::Step& step)
      : counts_(*context.plan, step),
        in_(context.buffer(step.in[0])),
        routes_(context.buffer(step.in[1])),
        out_(context.buffer(step.out[0])),
        of_experts_(context.order(step.in[0]) == plan::Order::experts),
        weigh_input_(step.weigh_input),
        activation_(activation_kind(step.activation)),
        rows_(context.info(step.w[0]).rows),
        kernels_(*context.kernels->blocks),
        kernel_function_(kernels_.matmul[static_cast<std::size_t>(context.info(step.w[0]).dtype)]) {
    matrices_ = context.experts(step, 0);
    if (step.glu) up_ = context.experts(step, 1);
    const auto most_rows = static_cast<std::uint32_t>(kernels_.task_rows);
    const std::uint64_t fair =
        rows_ * std::uint64_t{counts_.experts} / (2 * static_cast<std::uint64_t>(context.threads));
    rows_per_task_ =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(fair / 32 * 32, 32, most_rows));
    kernel_ = context.kernel_label(true, step.glu ? "moe_glu_b16" : "moe_matmul_b16", step.w[0]);
  }

  std::size_t scratch_bytes() const override {
    return ExpertLists::scratch_bytes(counts_) + gathered_bytes() + sums_bytes() +
           kernels_.matmul_scratch_bytes(static_cast<int>(in_.cols));
  }

  void run(const Worker& worker) const override {
    const ExpertLists lists(counts_, routes_, worker, worker.scratch);
    const auto tasks = static_cast<std::int32_t>(ceil_div(rows_, rows_per_task_));
    const auto n_lists = static_cast<std::int32_t>(lists.lists().size());
    const ExpertLists::List* gathered = nullptr;  // whose tokens the thread has brought together
    worker.spread(n_lists * tasks, [&](std::int32_t i) {
      const ExpertLists::List& list = lists.lists()[static_cast<std::size_t>(i / tasks)];
      const std::int32_t blocks = n_blocks(list.rows());
      for (std::int32_t b = 0; b < blocks; b += kBlocksAtOnce) {
        const std::int32_t n = std::min(kBlocksAtOnce, blocks - b);
        if (!of_experts_ && (gathered != &list || blocks > kBlocksAtOnce)) {
          gather(lists, list, b, n, gathered_memory(worker));
        }
        run_task(worker, list, static_cast<std::uint32_t>(i % tasks) * rows_per_task_, b, n);
      }
      gathered = &list;
    });
  }

 private:
  std::size_t block_bytes() const { return 32 * in_.row_bytes; }
  std::size_t gathered_bytes() const {
    return of_experts_ ? 0 : static_cast<std::size_t>(kBlocksAtOnce) * block_bytes();
  }
  // F blocks of a task's rows, where the output is rows.
  std::size_t sums_bytes() const {
    if (out_.form != plan::Form::f32) return 0;
    return static_cast<std::size_t>(kBlocksAtOnce) * 32 * rows_per_task_ * sizeof(float);
  }
  std::byte* gathered_memory(const Worker& worker) const {
    return worker.scratch + ExpertLists::scratch_bytes(counts_);
  }

  // X blocks of the list's tokens from its block `first` on. Places without a token are zero.
  void gather(const ExpertLists& lists, const ExpertLists::List& list, std::int32_t first,
              std::int32_t n, std::byte* to) const {
    for (std::int32_t b = 0; b < n; ++b, to += block_bytes()) {
      const std::int32_t begin = list.begin + 32 * (first + b);
      const std::int32_t count = std::min(32, list.end - begin);
      if (count < 32) std::memset(to, 0, block_bytes());
      for (std::size_t step = 0; step < block_bytes(); step += kXStep) {
        for (std::int32_t i = 0; i < count; ++i) {
          const std::int32_t t = lists.token(begin + i);
          const auto* from = reinterpret_cast<const std::byte*>(in_.block(t / 32)) + step;
          std::byte* place = to + step + token_offset(i);
          copy_token(from + token_offset(t % 32), place);
          if (weigh_input_) weigh_token(place, lists.weight(begin + i));
        }
      }
    }
  }
  // Where a token's first pair of features is in an X block.
  static std::size_t token_offset(std::int32_t t) {
    return static_cast<std::size_t>(t / 16 * 1024 + t % 16 * 4);
  }
  // The 16 pairs of one token in 32 features.
  static void copy_token(const std::byte* from, std::byte* to) {
    for (int pair = 0; pair < 16; ++pair) std::memcpy(to + 64 * pair, from + 64 * pair, 4);
  }
  static void weigh_token(std::byte* token, float weight) {
    for (int pair = 0; pair < 16; ++pair, token += 64) {
      std::uint16_t values[2];
      std::memcpy(values, token, 4);
      for (std::uint16_t& value : values) value = f32_to_bf16(bf16_to_f32(value) * weight);
      std::memcpy(token, values, 4);
    }
  }

  // Weight rows from `row` on times blocks [first, first + n) of the list.
  void run_task(const Worker& worker, const ExpertLists::List& list, std::uint32_t row,
                std::int32_t first, std::int32_t n) const {
    const auto expert = static_cast<std::size_t>(list.expert);
    const Matrix& w = matrices_[expert];
    std::byte* memory = gathered_memory(worker);
    auto* sums = reinterpret_cast<float*>(memory + gathered_bytes());
    const bool to_rows = out_.form == plan::Form::f32;
    kernels::MatmulBlocks args{};
    args.w = w.row(row);
    args.w_stride = w.stride;
    args.n = static_cast<int>(std::min(rows_per_task_, rows_ - row));
    args.k = static_cast<int>(in_.cols);
    args.x = of_experts_ ? static_cast<const void*>(in_.block(list.first_block + first)) : memory;
    args.m = std::min(32 * (first + n), list.rows()) - 32 * first;
    args.scratch = memory + gathered_bytes() + sums_bytes();
    args.bias = w.bias != nullptr ? w.bias + row : nullptr;
    args.activation = activation_;
    args.scale = 1.0F;
    if (!up_.empty()) {
      args.w_up = up_[expert].row(row);
      args.bias_up = up_[expert].bias != nullptr ? up_[expert].bias + row : nullptr;
    }
    if (to_rows) {
      args.features = args.n;
      args.out_f = sums;
    } else {
      args.row = static_cast<int>(row);
      args.features = static_cast<int>(out_.cols);
      args.out_x = out_.block(list.first_block + first);
    }
    kernel_function_(args);
    if (!to_rows) return;
    for (std::int32_t i = 0; i < args.m; ++i) {
      const float* block = sums + static_cast<std::size_t>(i / 32) * 32 * args.n;
      kernels_.block_to_row(block, i % 32, args.n, out_.row(list.begin + 32 * first + i) + row);
    }
  }

  ExpertCounts counts_;
  BufferRef in_, routes_, out_;
  bool of_experts_, weigh_input_;
  kernels::ActivationKind activation_;
  std::uint32_t rows_, rows_per_task_ = 32;
  const kernels::BlockKernels& kernels_;
  void (*kernel_function_)(const kernels::MatmulBlocks&);
  std::vector<Matrix> matrices_, up_;  // by expert
};

}  // namespace

StepResult make_moe_matmul_blocks(const CompileContext& context, const plan::Step& step) {
  const DType dtype = context.info(step.w[0]).dtype;
  if (context.kernels->blocks->matmul[static_cast<std::size_t>(dtype)] == nullptr) {
    return fail("E_UNSUPPORTED", "the CPU backend has no block kernel for experts of type " +
                                     std::string(dtype_info(dtype).name));
  }
  return std::make_unique<MoeMatmulBlocks>(context, step);
}

}  // namespace orrery::backend::cpu
