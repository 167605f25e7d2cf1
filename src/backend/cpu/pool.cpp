// pool: the rows of a whole text -> one vector.
#include <algorithm>

#include "backend/cpu/step.hpp"
#include "base/check.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::int32_t kFeatures = 64;  // of an item

class Pool : public CpuStep {
 public:
  Pool(const CompileContext& context, const plan::Step& step)
      : in_(context.buffer(step.in[0])),
        out_(context.buffer(step.out[0])),
        pool_kind_(step.pool_kind) {
    kernel_ = context.kernel_label(in_.blocks, "pool", plan::kNone);
  }

  void run(const Worker& worker) const override {
    ORRERY_CHECK(worker.batch->n_outputs == 1 && worker.batch->n_tokens > 0);
    const auto cols = static_cast<std::int32_t>(in_.cols);
    worker.each((cols + kFeatures - 1) / kFeatures, [&](std::int32_t i) {
      const std::int32_t end = std::min(cols, (i + 1) * kFeatures);
      for (std::int32_t f = i * kFeatures; f < end; ++f) {
        out_.row(0)[f] = pooled(worker.batch->n_tokens, f);
      }
    });
  }

 private:
  float element(std::int32_t row, std::int32_t feature) const {
    return in_.blocks ? in_.block(row / 32)[feature * 32 + row % 32] : in_.row(row)[feature];
  }

  // The sum is in double precision and in order: the same in both orders of the buffer.
  float pooled(std::int32_t rows, std::int32_t feature) const {
    if (pool_kind_ == plan::PoolKind::first) return element(0, feature);
    if (pool_kind_ == plan::PoolKind::last) return element(rows - 1, feature);
    double sum = 0.0;
    for (std::int32_t r = 0; r < rows; ++r) sum += element(r, feature);
    return static_cast<float>(sum / rows);
  }

  BufferRef in_, out_;
  plan::PoolKind pool_kind_;
};

}  // namespace

StepResult make_pool(const CompileContext& context, const plan::Step& step) {
  return std::make_unique<Pool>(context, step);
}

}  // namespace orrery::backend::cpu
