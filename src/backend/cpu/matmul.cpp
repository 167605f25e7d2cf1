// matmul and logits of few rows (classes i8 and f32): chunks of weight rows, handed out as threads
// become free, each multiplied with all activation rows while it is in cache.
#include <algorithm>

#include "backend/cpu/step.hpp"
#include "base/check.hpp"
#include "base/checked.hpp"

namespace orrery::backend::cpu {
namespace {

struct Matrix {
  const std::byte* data = nullptr;
  std::uint64_t stride = 0;  // bytes of a row
  DType dtype = DType::f32;
  Layout layout = Layout::file;
  const float* bias = nullptr;

  const std::byte* row(std::uint32_t r) const { return data + r * stride; }
};

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
        residual_(context.buffer(step.residual)),
        activation_(activation_kind(step.activation)),
        scale_(step.scale),
        softcap_(step.softcap),
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
    return std::size_t{kRowsAtOnce} * most_rows() * 4 * 2 + kernels::q8_layout(most_rows()).stride;
  }

  void run(const Worker& worker) const override {
    const std::int32_t rows = batch_rows(*worker.batch, outputs_);
    if (rows == 0) return;
    const Grid& grid = grid_for(rows);
    worker.spread(grid.chunks, [&](std::int32_t c) {
      const Chunk chunk = chunk_at(grid, c);
      for (std::int32_t r = 0; r < rows; r += kRowsAtOnce) {
        run_chunk(worker, chunk, r, std::min(kRowsAtOnce, rows - r));
      }
    });
  }

  // The kernels fetch ahead of themselves, but nobody is ahead of their first rows.
  void fetch(const Worker& worker) const override {
    const Grid& grid = grid_for(batch_rows(*worker.batch, outputs_));
    const std::int32_t c = worker.ranges(grid.chunks).first(worker.thread);
    if (c >= grid.chunks) return;
    const Chunk chunk = chunk_at(grid, c);
    fetch_lines(chunk.part->w.row(chunk.begin));
    if (glu_) fetch_lines(chunk.part->up.row(chunk.begin));
  }

 private:
  static void fetch_lines(const std::byte* p) {
    constexpr int kFetchBytes = 12288, kLine = 64;
    for (int i = 0; i < kFetchBytes; i += kLine) __builtin_prefetch(p + i, 0, 2);
  }

  const Grid& grid_for(std::int32_t rows) const {
    return rows >= kernels_.panels->rows ? many_ : few_;
  }
  std::uint32_t most_rows() const { return std::max(few_.chunk_rows, many_.chunk_rows); }

  Chunk chunk_at(const Grid& grid, std::int32_t c) const {
    std::size_t i = 0;
    while (c >= grid.first[i + 1]) ++i;
    const std::uint32_t begin = static_cast<std::uint32_t>(c - grid.first[i]) * grid.chunk_rows;
    return {&parts_[i], begin, std::min(grid.chunk_rows, parts_[i].rows - begin)};
  }

  static constexpr std::int32_t kRowsAtOnce = 32;  // activation rows per pass over a chunk

  static Matrix make_matrix(const CompileContext& context, const plan::Step& step, std::size_t i) {
    const plan::Weight& weight = context.info(step.w[i]);
    return {context.weight(step.w[i]), row_bytes(weight.dtype, weight.cols), weight.dtype,
            weight.layout, context.vector(step.bias[i])};
  }

  Part make_part(const CompileContext& context, const plan::Step& step, std::size_t i) const {
    Part part;
    part.w = make_matrix(context, step, i);
    if (glu_) part.up = make_matrix(context, step, 1);
    part.rows = context.info(step.w[i]).rows;
    part.out = context.buffer(step.out[glu_ ? 0 : i]);
    return part;
  }

  // Weight rows [begin, begin + n) x activation rows [r, r + m).
  void run_chunk(const Worker& worker, const Chunk& chunk, std::int32_t r, std::int32_t m) const {
    const Part& part = *chunk.part;
    const std::uint32_t begin = chunk.begin, n = chunk.rows;
    float* gate = reinterpret_cast<float*>(worker.scratch);  // (m, n)
    float* up = gate + std::size_t{kRowsAtOnce} * most_rows();
    std::byte* temporary =
        reinterpret_cast<std::byte*>(up + std::size_t{kRowsAtOnce} * most_rows());
    const bool direct = part.out.form == plan::Form::f32 && !glu_;
    kernels::MatmulRows args{};
    args.n = static_cast<int>(n);
    args.k = static_cast<int>(in_.cols);
    args.x = in_.bytes(r, worker);
    args.x_stride = in_.row_bytes;
    args.m = m;
    const auto multiply = [&](const Matrix& w, float* y, std::size_t y_stride) {
      args.w = w.row(begin);
      args.w_stride = w.stride;
      args.y = y;
      args.y_stride = y_stride;
      row_matmul(kernels_, w.dtype, w.layout, m)(args);
    };
    if (direct) {
      multiply(part.w, part.out.row(r) + begin, part.out.cols);
    } else {
      multiply(part.w, gate, n);
    }
    if (glu_) multiply(part.up, up, n);
    for (std::int32_t i = 0; i < m; ++i) {
      float* y = direct ? part.out.row(r + i) + begin : gate + std::size_t{n} * i;
      finish_row(worker, part, begin, n, r + i, y, up + std::size_t{n} * i, temporary);
    }
  }

  // y = act(y + bias) * scale + residual (glu: act(y + bias) * (up + bias)) -> the output buffer.
  void finish_row(const Worker& worker, const Part& part, std::uint32_t begin, std::uint32_t n,
                  std::int32_t row, float* y, float* up, std::byte* temporary) const {
    const int count = static_cast<int>(n);
    if (part.w.bias != nullptr) kernels_.add(y, part.w.bias + begin, y, count);
    if (glu_) {
      if (part.up.bias != nullptr) kernels_.add(up, part.up.bias + begin, up, count);
      float* out = part.out.form == plan::Form::f32 ? part.out.row(row) + begin : y;
      kernels_.glu(activation_, y, up, out, count);
    } else {
      if (activation_ != kernels::ActivationKind::none) kernels_.activate(activation_, y, count);
      const float* residual = residual_ ? residual_.row(row, worker) + begin : nullptr;
      if (scale_ != 1.0F || residual != nullptr) kernels_.scale_add(y, scale_, residual, count);
      if (softcap_ != 0.0F) kernels_.softcap(y, softcap_, count);
    }
    if (part.out.form == plan::Form::q8) {
      store_q8(kernels_, y, begin, n, part.out.bytes(row), part.out.cols, temporary);
    }
  }

  BufferRef in_, residual_;
  kernels::ActivationKind activation_;
  float scale_, softcap_;
  bool glu_, outputs_;
  const kernels::RowKernels& kernels_;
  std::vector<Part> parts_;
  Grid few_, many_;
};

}  // namespace

StepResult make_matmul(const CompileContext& context, const plan::Step& step) {
  for (const plan::WeightId id : step.w) {
    if (id == plan::kNone) continue;
    const DType dtype = context.info(id).dtype;
    if (row_matmul(*context.kernels->rows, dtype, context.info(id).layout, 1) == nullptr) {
      return fail("E_UNSUPPORTED", "the CPU backend has no row kernel for weights of type " +
                                       std::string(dtype_info(dtype).name));
    }
  }
  return std::make_unique<MatmulRowsStep>(context, step);
}

}  // namespace orrery::backend::cpu
