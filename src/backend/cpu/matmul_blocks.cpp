// matmul of prefill (class b16): a task is some weight rows times all token blocks.
#include <algorithm>
#include <cstring>

#include "backend/cpu/adapters.hpp"
#include "backend/cpu/step.hpp"
#include "base/checked.hpp"

namespace orrery::backend::cpu {
namespace {

// Threads that have fewer token blocks than this share them and split the weight's rows: to unpack
// weights for fewer tokens costs more than to fetch activations from another core.
constexpr std::int32_t kShareBlocks = 8;

struct Part {
  const std::byte* w = nullptr;
  const std::byte* w_up = nullptr;
  std::uint64_t w_stride = 0;
  std::uint32_t rows = 0;
  const float* bias = nullptr;
  const float* bias_up = nullptr;
  BufferRef out;
  void (*kernel)(const kernels::MatmulBlocks&) = nullptr;
  std::int32_t first_task = 0, tasks = 0;
};

// The kernels for a weight's layout, by type.
auto table_of(const kernels::BlockKernels& kernels, const plan::Weight& weight) {
  return weight.layout == Layout::packed ? kernels.matmul_packed : kernels.matmul;
}

class MatmulBlocksStep : public CpuStep {
 public:
  MatmulBlocksStep(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        residual_(context.buffer(step.residual)),
        activation_(activation_kind(step.activation)),
        scale_(step.scale),
        glu_(step.glu),
        adapted_(context, step),
        kernels_(*context.kernels->blocks),
        rows_(*context.kernels->rows) {
    const std::uint32_t task_rows = static_cast<std::uint32_t>(kernels_.task_rows);
    std::uint32_t total = 0;
    for (std::size_t i = 0; i < (glu_ ? 1U : 3U) && step.w[i] != plan::kNone; ++i) {
      parts_.push_back(make_part(context, step, i));
      total += parts_.back().rows;
    }
    // Two tasks a thread at least, so that nobody waits for a whole one.
    const std::uint32_t fair = total / (2 * static_cast<std::uint32_t>(context.threads));
    rows_per_task_ = std::max(32U, std::min(task_rows, fair / 32 * 32));
    for (Part& part : parts_) {
      part.first_task = n_tasks_;
      part.tasks = static_cast<std::int32_t>(ceil_div(part.rows, rows_per_task_));
      n_tasks_ += part.tasks;
    }
    kernel_ = context.kernel_label(true, glu_ ? "glu_b16" : "matmul_b16", step.w[0]);
  }

  std::size_t scratch_bytes() const override {
    return kernels_.matmul_scratch_bytes(static_cast<int>(in_.cols));
  }

  void run(const Worker& worker) const override {
    const std::int32_t blocks = n_blocks(worker.batch->n_tokens);
    const int shares = std::clamp(blocks / kShareBlocks, 1, worker.threads);
    const auto first_block = [&](int share) { return blocks * share / shares; };
    BlockAdapters adapters(adapted_, worker);
    worker.spread(shares * n_tasks_, [&](std::int32_t i) {  // one share's tasks after the other
      const std::int32_t share = i / n_tasks_, t = i % n_tasks_;
      const Part* part = parts_.data();
      while (t >= part->first_task + part->tasks) ++part;
      const Task task{part, static_cast<std::uint32_t>(t - part->first_task) * rows_per_task_,
                      first_block(share), first_block(share + 1)};
      if (adapters) {
        run_adapted(task, adapters, worker);
      } else {
        run_task(task, worker);
      }
    });
  }

 private:
  Part make_part(const CompileContext& context, const plan::Step& step, std::size_t i) const {
    const plan::Weight& weight = context.info(step.w[i]);
    Part part;
    part.w = context.weight(step.w[i]);
    part.w_stride = row_bytes(weight.dtype, weight.cols);
    part.rows = weight.rows;
    part.bias = context.vector(step.bias[i]);
    part.out = context.buffer(step.out[glu_ ? 0 : i]);
    part.kernel = table_of(kernels_, weight)[static_cast<std::size_t>(weight.dtype)];
    if (glu_) {
      part.w_up = context.weight(step.w[1]);
      part.bias_up = context.vector(step.bias[1]);
    }
    return part;
  }

  // Weight rows from `row` on times token blocks [first, end).
  struct Task {
    const Part* part;
    std::uint32_t row;
    std::int32_t first, end;
  };

  void run_task(const Task& task, const Worker& worker) const {
    const auto [of, row, first, end] = task;
    const Part& part = *of;
    const std::uint32_t n = std::min(rows_per_task_, part.rows - row);
    kernels::MatmulBlocks args{};
    args.w = part.w + row * part.w_stride;
    args.w_up = glu_ ? part.w_up + row * part.w_stride : nullptr;
    args.w_stride = part.w_stride;
    args.row = static_cast<int>(row);
    args.n = static_cast<int>(n);
    args.k = static_cast<int>(in_.cols);
    args.x = in_.block(first);
    args.m = std::min(32 * end, worker.batch->n_tokens) - 32 * first;
    args.scratch = worker.scratch;
    args.bias = part.bias != nullptr ? part.bias + row : nullptr;
    args.bias_up = part.bias_up != nullptr ? part.bias_up + row : nullptr;
    args.activation = activation_;
    args.scale = scale_;
    args.residual = residual_ ? residual_.block(first) : nullptr;
    args.out_f = part.out.form == plan::Form::f32 ? part.out.block(first) : nullptr;
    args.out_x = part.out.form == plan::Form::bf16 ? part.out.block(first) : nullptr;
    args.features = static_cast<int>(part.out.cols);
    part.kernel(args);
  }

  // The same with what adapters add before the activation: products alone, 32 rows at once, and
  // then what follows them.
  void run_adapted(const Task& task, BlockAdapters& adapters, const Worker& worker) const {
    adapters.project(in_, task.first, task.end);
    const Part& part = *task.part;
    const auto index = static_cast<std::size_t>(task.part - parts_.data());
    const std::uint32_t end = std::min(task.row + rows_per_task_, part.rows);
    for (std::uint32_t row = task.row; row < end; row += 32) {
      const std::uint32_t n = std::min(32U, end - row);
      float* sums = adapters.sums();
      float* up = sums + static_cast<std::size_t>(task.end - task.first) * 32 * 32;
      multiply({part.w, part.bias}, part, row, n, task, sums, worker);
      adapters.add(index, row, n, sums);
      if (glu_) {
        multiply({part.w_up, part.bias_up}, part, row, n, task, up, worker);
        adapters.add(index + 1, row, n, up);
      }
      for (std::int32_t b = task.first; b < task.end; ++b, sums += n * 32, up += n * 32) {
        finish_block(part, row, n, b, sums, up);
      }
    }
  }

  struct Operand {
    const std::byte* w;
    const float* bias;
  };
  // y (blocks, n, 32) = rows [row, row + n) of one weight times the task's token blocks, + bias.
  void multiply(const Operand& weight, const Part& part, std::uint32_t row, std::uint32_t n,
                const Task& task, float* y, const Worker& worker) const {
    kernels::MatmulBlocks args{};
    args.w = weight.w + row * part.w_stride;
    args.w_stride = part.w_stride;
    args.n = args.features = static_cast<int>(n);
    args.k = static_cast<int>(in_.cols);
    args.x = in_.block(task.first);
    args.m = std::min(32 * task.end, worker.batch->n_tokens) - 32 * task.first;
    args.scratch = worker.scratch;
    args.bias = weight.bias != nullptr ? weight.bias + row : nullptr;
    args.scale = 1.0F;
    args.out_f = y;
    part.kernel(args);
  }

  // Features [row, row + n) of token block b: activation or glu, scale, residual, and the store.
  void finish_block(const Part& part, std::uint32_t row, std::uint32_t n, std::int32_t b, float* y,
                    const float* up) const {
    const int count = static_cast<int>(32 * n);
    if (glu_) {
      rows_.glu(activation_, y, up, y, count);
    } else if (activation_ != kernels::ActivationKind::none) {
      rows_.activate(activation_, y, count);
    }
    const std::size_t at = std::size_t{row} * 32;
    rows_.scale_add(y, scale_, residual_ ? residual_.block(b) + at : nullptr, count);
    if (part.out.form == plan::Form::f32) {
      std::memcpy(part.out.block(b) + at, y, static_cast<std::size_t>(count) * sizeof(float));
    } else {
      constexpr std::size_t kXStep = 2048;  // bytes of an X block for 32 features
      std::byte* to = reinterpret_cast<std::byte*>(part.out.block(b)) + row / 32 * kXStep;
      if (n < 32) std::memset(to, 0, kXStep);
      kernels_.to_x(y, static_cast<int>(n), to);
    }
  }

  BufferRef in_, residual_;
  kernels::ActivationKind activation_;
  float scale_;
  bool glu_;
  AdaptedStep adapted_;
  const kernels::BlockKernels& kernels_;
  const kernels::RowKernels& rows_;
  std::vector<Part> parts_;
  std::uint32_t rows_per_task_ = 32;
  std::int32_t n_tasks_ = 0;
};

}  // namespace

StepResult make_matmul_blocks(const CompileContext& context, const plan::Step& step) {
  for (const plan::WeightId id : step.w) {
    if (id == plan::kNone) continue;
    const plan::Weight& weight = context.info(id);
    const DType dtype = weight.dtype;
    if (table_of(*context.kernels->blocks, weight)[static_cast<std::size_t>(dtype)] == nullptr) {
      return fail("E_UNSUPPORTED", "the CPU backend has no block kernel for weights of type " +
                                       std::string(dtype_info(dtype).name));
    }
  }
  if (step.glu && (context.info(step.w[0]).dtype != context.info(step.w[1]).dtype ||
                   context.info(step.w[0]).layout != context.info(step.w[1]).layout)) {
    return fail("E_UNSUPPORTED", "gate and up of a block matmul must have one type and layout");
  }
  return std::make_unique<MatmulBlocksStep>(context, step);
}

}  // namespace orrery::backend::cpu
