// The inner part of a product of few rows: some weight rows times some activation rows, and what
// follows before the result is stored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/adapters.hpp"
#include "backend/cpu/step.hpp"

namespace orrery::backend::cpu {

// Weight rows [begin, begin + rows) of a matrix, and of a second one with glu.
struct WeightRows {
  const Matrix* w;
  const Matrix* up;
  std::uint32_t begin, rows;
  std::size_t part = 0;  // which weight of its step w is; `up` is the next
};

// m operand rows, `stride` bytes apart; their results are rows of the output from `out` on.
struct OperandRows {
  const std::byte* x;
  std::uint64_t stride;
  std::int32_t m;
  std::int64_t out;
  const RowAdapters* adapters = nullptr;
  const float* factors = nullptr;  // (m) or null: of what comes out of each weight
};

// Starts to bring in the first rows of a product: kernels fetch ahead of themselves, but nobody is
// ahead of those.
inline void fetch_rows(const std::byte* p) {
  constexpr int kFetchBytes = 12288, kLine = 64;
  for (int i = 0; i < kFetchBytes; i += kLine) __builtin_prefetch(p + i, 0, 2);
}

class RowProduct {
 public:
  static constexpr std::int32_t kRowsAtOnce = 64;  // activation rows per pass over weight rows

  RowProduct() = default;
  RowProduct(const CompileContext& context, const plan::Step& step);

  // E_UNSUPPORTED when a weight of the step has no row kernel.
  static Status check(const CompileContext& context, const plan::Step& step);

  static std::size_t scratch_bytes(std::uint32_t most_weight_rows);
  // At most kRowsAtOnce operand rows. `scratch`: scratch_bytes(weights.rows).
  void run(const Worker& worker, const WeightRows& weights, const OperandRows& rows,
           const BufferRef& out, std::byte* scratch) const;

 private:
  void finish_row(const Worker& worker, const WeightRows& weights, std::int64_t row, float* y,
                  float* up, const BufferRef& out, std::byte* temporary) const;

  const kernels::RowKernels* kernels_ = nullptr;
  BufferRef residual_;
  kernels::ActivationKind activation_ = kernels::ActivationKind::none;
  float scale_ = 1.0F, softcap_ = 0.0F;
  std::uint32_t k_ = 0;
  bool glu_ = false;
};

}  // namespace orrery::backend::cpu
