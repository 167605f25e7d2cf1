// embed: rows of the vocabulary table (of learned positions, of token types) -> the residual
// stream.
#include "backend/cpu/step.hpp"
#include "tensor/decode.hpp"

namespace orrery::backend::cpu {
namespace {

class Embed : public CpuStep {
 public:
  Embed(const CompileContext& context, const plan::Step& step)
      : table_(context.info(step.w[0])),
        table_data_(context.weight(step.w[0])),
        types_(context.vector(step.w[2])),
        typed_(types_ != nullptr && context.info(step.w[2]).rows > 1),
        out_(context.buffer(step.out[0])),
        scale_(step.scale),
        kernels_(*context.kernels) {
    if (step.w[1] != plan::kNone) {
      positions_ = &context.info(step.w[1]);
      positions_data_ = context.weight(step.w[1]);
    }
    kernel_ = context.kernel_label(out_.blocks, "embed", step.w[0]);
  }

  std::size_t scratch_bytes() const override {
    return (out_.blocks ? 34U : 2U) * std::size_t{out_.cols} * 4;
  }

  void run(const Worker& worker) const override {
    const std::int32_t rows = worker.batch->n_tokens;
    float* scratch = reinterpret_cast<float*>(worker.scratch);
    if (!out_.blocks) {
      worker.each(
          rows, [&](std::int32_t r) { embed_row(*worker.batch, r, out_.row(r, worker), scratch); });
      return;
    }
    float* block_rows = scratch + 2 * std::size_t{out_.cols};  // (32, cols)
    worker.spread(n_blocks(rows), [&](std::int32_t b) {
      const std::int32_t n = std::min(32, rows - 32 * b);
      for (std::int32_t t = 0; t < n; ++t) {
        embed_row(*worker.batch, 32 * b + t, block_rows + std::size_t{out_.cols} * t, scratch);
      }
      kernels_.blocks->rows_to_block(block_rows, out_.cols, n, static_cast<int>(out_.cols),
                                     out_.block(b));
    });
  }

 private:
  void embed_row(const Batch& batch, std::int32_t r, float* out, float* scratch) const {
    const std::uint64_t cols = out_.cols;
    // A row takes no more bytes in any type than as f32.
    auto* file_row = reinterpret_cast<std::byte*>(scratch + cols);
    const std::int32_t id = batch.ids[r];
    const bool known = static_cast<std::uint32_t>(id) < table_.rows;
    decode(table_, table_data_, known ? id : 0, file_row, out);
    const float* position = nullptr;
    if (positions_ != nullptr) {
      decode(*positions_, positions_data_, batch.positions[r], file_row, scratch);
      position = scratch;
    }
    if (scale_ != 1.0F || position != nullptr) {
      kernels_.rows->scale_add(out, scale_, position, static_cast<int>(cols));
    }
    if (types_ != nullptr) {
      const bool second = typed_ && batch.types != nullptr && batch.types[r] == 1;
      kernels_.rows->add(out, types_ + (second ? cols : 0), out, static_cast<int>(cols));
    }
  }

  static void decode(const plan::Weight& table, const std::byte* data, std::int32_t row,
                     std::byte* file_row, float* out) {
    const std::uint64_t stride = row_bytes(table.dtype, table.cols);
    const auto at = static_cast<std::uint64_t>(row);
    const std::byte* source = data + at * stride;
    if (table.layout == Layout::packed) {
      const std::uint64_t lane = at % kPackedRows;
      unpack_row(table.dtype, table.cols, source - lane * stride, static_cast<int>(lane), file_row);
      source = file_row;
    }
    decode_row(table.dtype, source, out, table.cols);
  }

  plan::Weight table_;
  const std::byte* table_data_;
  const plan::Weight* positions_ = nullptr;
  const std::byte* positions_data_ = nullptr;
  const float* types_;  // (types, cols) that are added, or null
  bool typed_;          // more than one
  BufferRef out_;
  float scale_;
  kernels::KernelSet kernels_;
};

}  // namespace

StepResult make_embed(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<Embed>(context, step);
}

}  // namespace orrery::backend::cpu
