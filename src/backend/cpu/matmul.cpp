// matmul and logits of few rows (classes i8 and f32): chunks of weight rows, handed out as threads
// become free, each multiplied with all activation rows while it is in cache.
#include <algorithm>

#include "backend/cpu/row_product.hpp"
#include "base/check.hpp"
#include "base/checked.hpp"

namespace orrery::backend::cpu {
namespace {

// One weight of the step and where its results go.
struct Part {
  Matrix w, up;  // up: glu
  std::uint32_t rows = 0;
  BufferRef out;
};

// How the weight rows of a step are cut into chunks, part after part.
struct Grid {
  std::uint32_t chunk_rows = 32;
  std::int32_t first[4] = {};  // chunk of each part, and behind the last
  std::int32_t chunks = 0;

  Grid() = default;
  Grid(const std::vector<Part>& parts, std::uint64_t wanted_rows, std::uint64_t least,
       std::uint64_t most) {
    chunk_rows = static_cast<std::uint32_t>(std::clamp(wanted_rows / 32 * 32, least, most));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      first[i] = chunks;
      chunks += static_cast<std::int32_t>(ceil_div(parts[i].rows, chunk_rows));
    }
    first[parts.size()] = chunks;
  }
};

// One chunk: weight rows [begin, begin + rows) of a part.
struct Chunk {
  const Part* part;
  std::uint32_t begin, rows;
};

class MatmulRowsStep : public CpuStep {
 public:
  MatmulRowsStep(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        product_(context, step),
        adapted_(context, step),
        glu_(step.glu),
        outputs_(context.plan->buffers[static_cast<std::size_t>(step.in[0])].rows ==
                 plan::kOutputs),
        kernels_(*context.kernels->rows) {
    std::uint64_t total = 0;
    const int n_parts = glu_ ? 1 : 3;
    for (int i = 0; i < n_parts; ++i) {
      if (step.w[static_cast<std::size_t>(i)] == plan::kNone) break;
      parts_.push_back(make_part(context, step, static_cast<std::size_t>(i)));
      total += parts_.back().rows;
    }
    // About eight chunks a thread: a preempted thread holds up the others for an eighth of a step.
    // With many activation rows a chunk is some panels, which share what is prepared of the rows.
    const auto threads = static_cast<std::uint64_t>(context.threads);
    few_ = Grid(parts_, total / (8 * threads), 32, 1024);
    many_ = Grid(parts_, total / (3 * threads), 32, 128);
    kernel_ = context.kernel_label(
        false, step.number_class == plan::NumberClass::i8 ? "matmul_i8" : "matmul_f32", step.w[0]);
  }

  std::size_t scratch_bytes() const override {
    return RowProduct::scratch_bytes(std::max(few_.chunk_rows, many_.chunk_rows));
  }

  void run(const Worker& worker) const override {
    const std::int32_t rows = batch_rows(*worker.batch, outputs_);
    if (rows == 0) return;
    const Grid& grid = grid_for(rows);
    const RowAdapters adapters(adapted_, worker, {in_.bytes(0, worker), in_.row_bytes, rows, 0});
    worker.spread(grid.chunks, [&](std::int32_t c) {
      const Chunk chunk = chunk_at(grid, c);
      const WeightRows weights{&chunk.part->w, &chunk.part->up, chunk.begin, chunk.rows,
                               static_cast<std::size_t>(chunk.part - parts_.data())};
      constexpr std::int32_t kAtOnce = RowProduct::kRowsAtOnce;
      for (std::int32_t r = 0; r < rows; r += kAtOnce) {
        const OperandRows operand{in_.bytes(r, worker), in_.row_bytes, std::min(kAtOnce, rows - r),
                                  r, &adapters};
        product_.run(worker, weights, operand, chunk.part->out, worker.scratch);
      }
    });
  }

  void fetch(const Worker& worker) const override {
    const Grid& grid = grid_for(batch_rows(*worker.batch, outputs_));
    const std::int32_t c = worker.ranges(grid.chunks).first(worker.thread);
    if (c >= grid.chunks) return;
    const Chunk chunk = chunk_at(grid, c);
    fetch_rows(chunk.part->w.row(chunk.begin));
    if (glu_) fetch_rows(chunk.part->up.row(chunk.begin));
  }

 private:
  const Grid& grid_for(std::int32_t rows) const {
    return rows >= kernels_.panels->rows ? many_ : few_;
  }

  Chunk chunk_at(const Grid& grid, std::int32_t c) const {
    std::size_t i = 0;
    while (c >= grid.first[i + 1]) ++i;
    const std::uint32_t begin = static_cast<std::uint32_t>(c - grid.first[i]) * grid.chunk_rows;
    return {&parts_[i], begin, std::min(grid.chunk_rows, parts_[i].rows - begin)};
  }

  Part make_part(const CompileContext& context, const plan::Step& step, std::size_t i) const {
    Part part;
    part.w = context.matrix(step, i);
    if (glu_) part.up = context.matrix(step, 1);
    part.rows = context.info(step.w[i]).rows;
    part.out = context.buffer(step.out[glu_ ? 0 : i]);
    return part;
  }

  BufferRef in_;
  RowProduct product_;
  AdaptedStep adapted_;
  bool glu_, outputs_;
  const kernels::RowKernels& kernels_;
  std::vector<Part> parts_;
  Grid few_, many_;
};

}  // namespace

StepResult make_matmul(const CompileContext& context, const plan::Step& step) {
  ORRERY_TRY_VOID(RowProduct::check(context, step));
  return std::make_unique<MatmulRowsStep>(context, step);
}

}  // namespace orrery::backend::cpu
