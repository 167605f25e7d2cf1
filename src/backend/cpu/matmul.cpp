// matmul and logits of few rows (classes i8 and f32): chunks of weight rows, handed out as threads
// become free, each multiplied with all activation rows while it is in cache.
#include <algorithm>

#include "backend/cpu/step.hpp"
#include "base/check.hpp"
#include "base/checked.hpp"

namespace orrery::backend::cpu {
namespace {

// One weight of the step and where its results go.
struct Part {
  const std::byte* w = nullptr;
  const std::byte* w_up = nullptr;  // glu
  std::uint64_t w_stride = 0;
  std::uint32_t rows = 0;
  const float* bias = nullptr;
  const float* bias_up = nullptr;
  BufferRef out;
  void (*kernel)(const kernels::MatmulRows&) = nullptr;
  void (*kernel_up)(const kernels::MatmulRows&) = nullptr;
  std::uint64_t up_stride = 0;
  std::int32_t first_chunk = 0, chunks = 0;
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
    const std::uint64_t wanted = total / (8 * static_cast<std::uint64_t>(context.threads));
    chunk_rows_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted / 32 * 32, 32, 1024));
    for (Part& part : parts_) {
      part.first_chunk = n_chunks_;
      part.chunks = static_cast<std::int32_t>(ceil_div(part.rows, chunk_rows_));
      n_chunks_ += part.chunks;
    }
    kernel_ = context.kernel_label(
        false, step.number_class == plan::NumberClass::i8 ? "matmul_i8" : "matmul_f32", step.w[0]);
  }

  std::size_t scratch_bytes() const override {
    return std::size_t{kRowsAtOnce} * chunk_rows_ * 4 * 2 + kernels::q8_layout(chunk_rows_).stride;
  }

  void run(const Worker& worker) const override {
    const std::int32_t rows = batch_rows(*worker.batch, outputs_);
    if (rows == 0) return;
    Handout chunks = worker.ranges(n_chunks_);
    for (std::int32_t c = chunks.next(); c >= 0; c = chunks.next()) {
      const Part* part = part_of(c);
      const std::uint32_t begin = static_cast<std::uint32_t>(c - part->first_chunk) * chunk_rows_;
      const std::uint32_t n = std::min(chunk_rows_, part->rows - begin);
      for (std::int32_t r = 0; r < rows; r += kRowsAtOnce) {
        run_chunk(worker, *part, begin, n, r, std::min(kRowsAtOnce, rows - r));
      }
    }
  }

  // The kernels fetch ahead of themselves, but nobody is ahead of their first rows.
  void fetch(const Worker& worker) const override {
    const std::int32_t c = worker.ranges(n_chunks_).first(worker.thread);
    if (c >= n_chunks_) return;
    const Part* part = part_of(c);
    const std::uint32_t begin = static_cast<std::uint32_t>(c - part->first_chunk) * chunk_rows_;
    fetch_lines(part->w + begin * part->w_stride);
    if (glu_) fetch_lines(part->w_up + begin * part->up_stride);
  }

 private:
  static void fetch_lines(const std::byte* p) {
    constexpr int kFetchBytes = 12288, kLine = 64;
    for (int i = 0; i < kFetchBytes; i += kLine) __builtin_prefetch(p + i, 0, 2);
  }

  const Part* part_of(std::int32_t chunk) const {
    const Part* part = parts_.data();
    while (chunk >= part->first_chunk + part->chunks) ++part;
    return part;
  }

  static constexpr std::int32_t kRowsAtOnce = 32;  // activation rows per pass over a chunk

  Part make_part(const CompileContext& context, const plan::Step& step, std::size_t i) const {
    const auto stride = [&](plan::WeightId id) {
      return row_bytes(context.info(id).dtype, context.info(id).cols);
    };
    const auto kernel = [&](plan::WeightId id) {
      return kernels_.matmul[static_cast<std::size_t>(context.info(id).dtype)];
    };
    Part part;
    part.w = context.weight(step.w[i]);
    part.w_stride = stride(step.w[i]);
    part.rows = context.info(step.w[i]).rows;
    part.bias = context.vector(step.bias[i]);
    part.kernel = kernel(step.w[i]);
    part.out = context.buffer(step.out[glu_ ? 0 : i]);
    if (glu_) {
      part.w_up = context.weight(step.w[1]);
      part.up_stride = stride(step.w[1]);
      part.bias_up = context.vector(step.bias[1]);
      part.kernel_up = kernel(step.w[1]);
    }
    return part;
  }

  // Weight rows [begin, begin + n) x activation rows [r, r + m).
  void run_chunk(const Worker& worker, const Part& part, std::uint32_t begin, std::uint32_t n,
                 std::int32_t r, std::int32_t m) const {
    float* gate = reinterpret_cast<float*>(worker.scratch);  // (m, n)
    float* up = gate + std::size_t{kRowsAtOnce} * chunk_rows_;
    std::byte* temporary =
        reinterpret_cast<std::byte*>(up + std::size_t{kRowsAtOnce} * chunk_rows_);
    const bool direct = part.out.form == plan::Form::f32 && !glu_;
    kernels::MatmulRows args{};
    args.w = part.w + begin * part.w_stride;
    args.w_stride = part.w_stride;
    args.n = static_cast<int>(n);
    args.k = static_cast<int>(in_.cols);
    args.x = in_.bytes(r, worker);
    args.x_stride = in_.row_bytes;
    args.m = m;
    args.y = direct ? part.out.row(r) + begin : gate;
    args.y_stride = direct ? part.out.cols : n;
    part.kernel(args);
    if (glu_) {
      args.w = part.w_up + begin * part.up_stride;
      args.w_stride = part.up_stride;
      args.y = up;
      part.kernel_up(args);
    }
    for (std::int32_t i = 0; i < m; ++i) {
      float* y = direct ? part.out.row(r + i) + begin : gate + std::size_t{n} * i;
      finish_row(worker, part, begin, n, r + i, y, up + std::size_t{n} * i, temporary);
    }
  }

  // y = act(y + bias) * scale + residual (glu: act(y + bias) * (up + bias)) -> the output buffer.
  void finish_row(const Worker& worker, const Part& part, std::uint32_t begin, std::uint32_t n,
                  std::int32_t row, float* y, float* up, std::byte* temporary) const {
    const int count = static_cast<int>(n);
    if (part.bias != nullptr) kernels_.add(y, part.bias + begin, y, count);
    if (glu_) {
      if (part.bias_up != nullptr) kernels_.add(up, part.bias_up + begin, up, count);
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
  std::uint32_t chunk_rows_ = 32;
  std::int32_t n_chunks_ = 0;
};

}  // namespace

StepResult make_matmul(const CompileContext& context, const plan::Step& step) {
  for (const plan::WeightId id : step.w) {
    if (id == plan::kNone) continue;
    const DType dtype = context.info(id).dtype;
    if (context.kernels->rows->matmul[static_cast<std::size_t>(dtype)] == nullptr) {
      return fail("E_UNSUPPORTED", "the CPU backend has no row kernel for weights of type " +
                                       std::string(dtype_info(dtype).name));
    }
  }
  return std::make_unique<MatmulRowsStep>(context, step);
}

}  // namespace orrery::backend::cpu
