// Latent attention of rows (plan/mla.hpp): absorbed queries, cached latents, values of heads.
#include <algorithm>
#include <cstring>

#include "backend/cpu/cache_rows.hpp"
#include "plan/mla.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::int32_t kRowsAtOnce = 32;   // activation rows per pass over a head's matrix
constexpr std::int32_t kDecodedRows = 16;  // of a matrix at a time, to be summed while in L1

// The matrices of all heads, in place.
struct HeadMatrices {
  const std::byte* data = nullptr;
  std::size_t stride = 0;  // bytes of a row
  std::uint32_t cols = 0;
  DType dtype = DType::f32;

  HeadMatrices(const CompileContext& context, plan::WeightId id)
      : data(context.weight(id)),
        stride(row_bytes(context.info(id).dtype, context.info(id).cols)),
        cols(context.info(id).cols),
        dtype(context.info(id).dtype) {}
  const std::byte* row(std::uint32_t r) const { return data + r * stride; }
  bool quantized() const { return dtype_info(dtype).is_quantized; }
  // Activations of one row as the operand that the products take.
  std::size_t operand_bytes() const {
    return quantized() ? kernels::q8_layout(cols).stride : std::size_t{cols} * 4;
  }
};

// y (m, rows.count) = x times the rows of a head; x (m, cols) are floats, x_stride apart.
void multiply_head(const kernels::RowKernels& kernels, const HeadMatrices& w, plan::HeadRows rows,
                   const float* x, std::size_t x_stride, std::int32_t m, float* y,
                   std::size_t y_stride, std::byte* operands) {
  kernels::MatmulRows args{};
  args.w = w.row(rows.first);
  args.w_stride = w.stride;
  args.n = static_cast<int>(rows.count);
  args.k = static_cast<int>(w.cols);
  args.m = m;
  args.y = y;
  args.y_stride = y_stride;
  args.x = x;
  args.x_stride = x_stride * sizeof(float);
  if (w.quantized()) {
    args.x = operands;
    args.x_stride = w.operand_bytes();
    for (std::int32_t i = 0; i < m; ++i) {
      kernels.quantize_q8(x + static_cast<std::size_t>(i) * x_stride, args.k,
                          operands + static_cast<std::size_t>(i) * args.x_stride);
    }
  }
  row_matmul(kernels, w.dtype, Layout::file, m)(args);
}

Status require_row_kernel(const CompileContext& context, plan::WeightId id) {
  const DType dtype = context.info(id).dtype;
  if (context.kernels->rows->matmul[static_cast<std::size_t>(dtype)] != nullptr) return {};
  return fail("E_UNSUPPORTED", "the CPU backend has no row kernel for weights of type " +
                                   std::string(dtype_info(dtype).name));
}

class MlaWriteRows : public CpuStep {
 public:
  MlaWriteRows(const CompileContext& context, const plan::Step& step)
      : step_(step),
        q_(context.buffer(step.in[0])),
        latent_(context.buffer(step.in[1])),
        out_(context.buffer(step.out[0])),
        cache_(context, step),
        keys_(context, step.w[0]),
        norm_(context.vector(step.w[1])),
        table_(context.rope_table(step)),
        kernels_(*context.kernels->rows) {
    kernel_ = context.kernel_label(false, "mla_write", step.w[0]);
  }

  std::size_t scratch_bytes() const override {
    const std::size_t summed = std::size_t{kDecodedRows} * keys_.cols * sizeof(float);
    const std::size_t multiplied = kRowsAtOnce * keys_.operand_bytes();
    return std::max({summed, multiplied, std::size_t{step_.k_dim} * sizeof(float)});
  }

  // An item is one head of all rows, or the latent of one row.
  void run(const Worker& worker) const override {
    const Batch& batch = *worker.batch;
    const std::int32_t heads = step_.heads;
    worker.each(heads + batch.n_tokens, [&](std::int32_t i) {
      if (i < heads) {
        absorb(worker, static_cast<std::uint32_t>(i));
      } else {
        write_latent(batch, i - heads, reinterpret_cast<float*>(worker.scratch));
      }
    });
  }

 private:
  const float* query(std::int32_t row, std::uint32_t head) const {
    return q_.row(row) + std::size_t{head} * (step_.nope_dim + step_.rope_dim);
  }
  float* latent_query(std::int32_t row, std::uint32_t head) const {
    return out_.row(row) + std::size_t{head} * step_.k_dim;
  }

  void absorb(const Worker& worker, std::uint32_t head) const {
    const plan::HeadRows rows = key_rows(step_, head);
    const std::int32_t n = worker.batch->n_tokens;
    if (step_.latent == plan::LatentWeights::joint) {
      sum_rows(rows, head, n, reinterpret_cast<float*>(worker.scratch));
    } else {
      for (std::int32_t r = 0; r < n; r += kRowsAtOnce) {
        multiply_head(kernels_, keys_, rows, query(r, head), q_.cols, std::min(kRowsAtOnce, n - r),
                      latent_query(r, head), out_.cols, worker.scratch);
      }
    }
    for (std::int32_t r = 0; r < n; ++r) {
      float* rotated = latent_query(r, head) + step_.v_dim;
      std::memcpy(rotated, query(r, head) + step_.nope_dim, step_.rope_dim * sizeof(float));
      rotate(rotated, r);
    }
  }

  // K_h^T q where K_h lies as it is: its rows, weighted with q.
  void sum_rows(plan::HeadRows rows, std::uint32_t head, std::int32_t n, float* decoded) const {
    const auto decode = kernels_.decode->decode[static_cast<std::size_t>(keys_.dtype)];
    const auto cols = static_cast<int>(keys_.cols);
    for (std::int32_t r = 0; r < n; ++r) {
      std::memset(latent_query(r, head), 0, keys_.cols * sizeof(float));
    }
    for (std::uint32_t first = 0; first < rows.count; first += kDecodedRows) {
      const int count = static_cast<int>(std::min<std::uint32_t>(kDecodedRows, rows.count - first));
      for (int j = 0; j < count; ++j) {
        decode(keys_.row(rows.first + first + static_cast<std::uint32_t>(j)), cols,
               decoded + j * cols);
      }
      for (std::int32_t r = 0; r < n; ++r) {
        kernels_.decode->add_rows({.rows = decoded,
                                   .stride = keys_.cols,
                                   .n = count,
                                   .cols = cols,
                                   .factors = query(r, head) + first,
                                   .out = latent_query(r, head)});
      }
    }
  }

  void write_latent(const Batch& batch, std::int32_t row, float* scratch) const {
    kernels::NormRow args{};
    args.x = latent_.row(row);
    args.weight = norm_;
    args.out = scratch;
    args.n = step_.v_dim;
    args.eps = step_.eps;
    kernels_.norm(args);
    float* rotated = scratch + step_.v_dim;
    std::memcpy(rotated, latent_.row(row) + step_.v_dim, step_.rope_dim * sizeof(float));
    rotate(rotated, row);
    store_row(kernels_, cache_, batch, row, 0, CacheSide::keys, scratch, step_.k_dim);
  }

  void rotate(float* x, std::int32_t row) const {
    const std::size_t at = static_cast<std::size_t>(row) * (step_.rope_dim / 2U);
    kernels_.rope({x, table_.cos + at, table_.sin + at, step_.rope_dim,
                   step_.rope == plan::RopeStyle::adjacent});
  }

  plan::Step step_;
  BufferRef q_, latent_, out_;
  CacheRows cache_;
  HeadMatrices keys_;
  const float* norm_;
  const RopeTable& table_;
  const kernels::RowKernels& kernels_;
};

class MlaValuesRows : public CpuStep {
 public:
  MlaValuesRows(const CompileContext& context, const plan::Step& step)
      : step_(step),
        in_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        values_(context, step.w[0]),
        kernels_(*context.kernels->rows) {
    kernel_ = context.kernel_label(false, "mla_values", step.w[0]);
  }

  std::size_t scratch_bytes() const override {
    return rows_bytes() + kRowsAtOnce * values_.operand_bytes() + head_operand_bytes();
  }

  void run(const Worker& worker) const override {
    const std::int32_t n = worker.batch->n_tokens;
    worker.each(step_.heads, [&](std::int32_t head) {
      for (std::int32_t r = 0; r < n; r += kRowsAtOnce) {
        run_head(worker, static_cast<std::uint32_t>(head), r, std::min(kRowsAtOnce, n - r));
      }
    });
  }

 private:
  std::size_t rows_bytes() const {
    return (kRowsAtOnce * std::size_t{step_.v_head} * sizeof(float) + 63) / 64 * 64;
  }
  std::size_t head_operand_bytes() const { return kernels::q8_layout(step_.v_head).stride; }

  void run_head(const Worker& worker, std::uint32_t head, std::int32_t r, std::int32_t m) const {
    const bool operand = out_.form == plan::Form::q8;
    const std::uint32_t first = head * step_.v_head;
    auto* scratch = reinterpret_cast<float*>(worker.scratch);  // (m, v_head)
    float* y = operand ? scratch : out_.row(r) + first;
    std::byte* operands = worker.scratch + rows_bytes();
    multiply_head(kernels_, values_, value_rows(step_, head),
                  in_.row(r) + std::size_t{head} * step_.v_dim, in_.cols, m, y,
                  operand ? step_.v_head : out_.cols, operands);
    if (!operand) return;
    for (std::int32_t i = 0; i < m; ++i) {
      store_q8(kernels_, y + static_cast<std::size_t>(i) * step_.v_head, first, step_.v_head,
               out_.bytes(r + i), out_.cols, operands + kRowsAtOnce * values_.operand_bytes());
    }
  }

  plan::Step step_;
  BufferRef in_, out_;
  HeadMatrices values_;
  const kernels::RowKernels& kernels_;
};

}  // namespace

StepResult make_mla_write(const CompileContext& context, const plan::Step& step) {
  ORRERY_TRY_VOID(require_row_kernel(context, step.w[0]));
  return std::make_unique<MlaWriteRows>(context, step);
}

StepResult make_mla_values(const CompileContext& context, const plan::Step& step) {
  ORRERY_TRY_VOID(require_row_kernel(context, step.w[0]));
  return std::make_unique<MlaValuesRows>(context, step);
}

}  // namespace orrery::backend::cpu
