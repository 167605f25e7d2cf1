#include "backend/cpu/adapters.hpp"

#include <algorithm>

#include "backend/cpu/row_product.hpp"
#include "base/check.hpp"
#include "base/checked.hpp"

namespace orrery::backend::cpu {
namespace {

constexpr std::uint64_t kLine = 16;      // floats
constexpr std::uint64_t kSumsRows = 32;  // features of a block that are added to at once

// The values that a row of class i8 stands for.
void decode_q8(const std::byte* row, std::uint32_t k, float* out) {
  const auto* d = reinterpret_cast<const float*>(row + kernels::q8_layout(k).d_offset);
  const auto* q = reinterpret_cast<const std::int8_t*>(row);
  for (std::uint32_t i = 0; i < k; ++i) out[i] = static_cast<float>(q[i]) * d[i / 32];
}

std::uint64_t rank_of(const AdapterBank& bank, std::span<const plan::WeightId> weights) {
  std::uint64_t rank = 0;
  for (const plan::WeightId weight : weights) {
    for (const AdapterBank::Pair& pair : bank.of(weight)) rank += pair.numbers.rank;
  }
  return rank;
}

std::uint64_t max_rank(const AdapterBank& bank, std::span<const plan::WeightId> weights) {
  std::uint64_t rank = 0;
  for (const plan::WeightId weight : weights) {
    for (const AdapterBank::Pair& pair : bank.of(weight)) {
      rank = std::max<std::uint64_t>(rank, pair.numbers.rank);
    }
  }
  return rank;
}

// f(pair, place, scale) for what a sequence uses of a step; `place`: ranks of those before.
template <class F>
void each_used(const Worker& worker, std::span<const plan::WeightId> weights, const float* scales,
               F f) {
  std::uint64_t place = 0;
  for (const plan::WeightId weight : weights) {
    for (const AdapterBank::Pair& pair : worker.adapters->of(weight)) {
      const float scale = scales[pair.slot];
      if (scale != 0.0F) f(pair.numbers, place, scale);
      place += pair.numbers.rank;
    }
  }
}

std::span<const plan::WeightId> before(const AdaptedStep& step, std::size_t part) {
  return std::span(step.weights).first(part);
}

}  // namespace

void AdapterBank::bind(std::uint32_t slot, std::span<const LowRank> pairs) {
  ORRERY_CHECK(slot < kMaxAdapters && !is_taken(slot));
  taken_ |= 1U << slot;
  for (const LowRank& numbers : pairs) {
    std::vector<Pair>& of = by_weight_[static_cast<std::size_t>(numbers.weight)];
    const auto after = std::ranges::find_if(of, [&](const Pair& pair) { return pair.slot > slot; });
    of.insert(after, {slot, numbers});
  }
}

std::span<const AdapterBank::Pair> AdapterBank::of(plan::WeightId weight) const {
  if (weight == plan::kNone) return {};
  return by_weight_[static_cast<std::size_t>(weight)];
}

std::uint64_t AdapterBank::memory_bytes(const plan::Plan& plan, bool blocks) const {
  const std::uint64_t rows = align_up(std::max(plan.capacity.tokens, plan.capacity.outputs), 32);
  std::uint64_t floats = 0;
  for (const plan::Step& step : plan.steps) {
    const std::uint64_t rank = rank_of(*this, step.w);
    if (rank == 0) continue;
    const std::uint32_t k = plan.buffers[static_cast<std::size_t>(step.in[0])].cols;
    // Of rows: one decoded, and the projections. Of blocks: sums, factors, projections.
    const std::uint64_t own =
        blocks ? 2 * kSumsRows * rows + align_up(max_rank(*this, step.w), kLine) : 0;
    floats = std::max(floats, std::max(align_up(k, kLine), own) + align_up(rank, kLine) * rows);
  }
  return floats * sizeof(float);
}

AdaptedStep::AdaptedStep(const CompileContext& context, const plan::Step& step)
    : weights(step.w), kernels(context.kernels) {
  const plan::Buffer& in = context.plan->buffers[static_cast<std::size_t>(step.in[0])];
  k = in.cols;
  is_q8 = step.number_class == plan::NumberClass::i8;
  outputs = in.rows == plan::kOutputs;
}

RowAdapters::RowAdapters(const AdaptedStep& step, const Worker& worker, const OperandRows& rows)
    : step_(step), worker_(worker), first_row_(rows.out) {
  if (worker.adapters == nullptr) return;
  const std::uint64_t rank = rank_of(*worker.adapters, step.weights);
  if (rank == 0) return;
  stride_ = align_up(rank, kLine);
  float* decoded = worker.adapter_memory;
  projected_ = decoded + align_up(step.k, kLine);
  for (std::int32_t i = 0; i < rows.m; ++i) {
    const std::byte* x = rows.x + static_cast<std::uint64_t>(i) * rows.stride;
    if (step.is_q8) decode_q8(x, step.k, decoded);
    project(step.is_q8 ? decoded : reinterpret_cast<const float*>(x), rows.out + i);
  }
}

const float* RowAdapters::scales(std::int64_t row) const {
  const Batch& batch = *worker_.batch;
  const std::int64_t token = step_.outputs ? batch.output_rows[row] : row;
  return batch.adapter_scales + std::int64_t{batch.row_sequence[token]} * kMaxAdapters;
}

void RowAdapters::project(const float* x, std::int64_t row) const {
  float* to = projected_ + static_cast<std::uint64_t>(row - first_row_) * stride_;
  each_used(worker_, step_.weights, scales(row),
            [&](const LowRank& pair, std::uint64_t place, float scale) {
              const std::size_t bytes = std::size_t{step_.k} * sizeof(float);
              kernels::MatmulRows args{};
              args.w = pair.a;
              args.w_stride = args.x_stride = bytes;
              args.n = static_cast<int>(pair.rank);
              args.k = static_cast<int>(step_.k);
              args.x = x;
              args.m = 1;
              args.y = to + place;
              args.y_stride = pair.rank;
              step_.kernels->rows->matmul[static_cast<std::size_t>(DType::f32)](args);
              step_.kernels->rows->scale_add(to + place, scale, nullptr, args.n);
            });
}

void RowAdapters::add(std::size_t part, std::int64_t row, std::uint32_t begin, std::uint32_t n,
                      float* y) const {
  if (projected_ == nullptr) return;
  const float* from = projected_ + static_cast<std::uint64_t>(row - first_row_) * stride_ +
                      rank_of(*worker_.adapters, before(step_, part));
  each_used(worker_, std::span(step_.weights).subspan(part, 1), scales(row),
            [&](const LowRank& pair, std::uint64_t place, float) {
              step_.kernels->rows->decode->add_rows({.rows = pair.b + begin,
                                                     .stride = pair.b_stride,
                                                     .n = static_cast<int>(pair.rank),
                                                     .cols = static_cast<int>(n),
                                                     .factors = from + place,
                                                     .out = y});
            });
}

BlockAdapters::BlockAdapters(const AdaptedStep& step, const Worker& worker)
    : step_(step), worker_(worker) {
  if (worker.adapters == nullptr) return;
  each_used(worker, step.weights, worker.batch->adapter_scales,
            [&](const LowRank&, std::uint64_t, float) { active_ = true; });
  if (!active_) return;
  const auto tokens = 32 * static_cast<std::uint64_t>(n_blocks(worker.batch->n_tokens));
  sums_ = worker.adapter_memory;
  factors_ = sums_ + 2 * kSumsRows * tokens;
  projected_ = factors_ + align_up(max_rank(*worker.adapters, step.weights), kLine);
}

void BlockAdapters::project(const BufferRef& operand, std::int32_t first, std::int32_t end) {
  if (first == first_ && end == end_) return;
  first_ = first;
  end_ = end;
  const std::uint64_t tokens = 32 * static_cast<std::uint64_t>(end - first);
  each_used(worker_, step_.weights, worker_.batch->adapter_scales,
            [&](const LowRank& pair, std::uint64_t place, float) {
              kernels::MatmulBlocks args{};
              args.w = pair.a;
              args.w_stride = std::size_t{step_.k} * sizeof(float);
              args.n = args.features = static_cast<int>(pair.rank);
              args.k = static_cast<int>(step_.k);
              args.x = operand.block(first);
              args.m = std::min(32 * end, worker_.batch->n_tokens) - 32 * first;
              args.scratch = worker_.scratch;
              args.scale = 1.0F;
              args.out_f = projected_ + place * tokens;
              step_.kernels->blocks->matmul[static_cast<std::size_t>(DType::f32)](args);
            });
}

void BlockAdapters::add(std::size_t part, std::uint32_t row, std::uint32_t n, float* y) const {
  const std::int32_t blocks = end_ - first_;
  const float* from = projected_ + 32 * static_cast<std::uint64_t>(blocks) *
                                       rank_of(*worker_.adapters, before(step_, part));
  const auto add_feature = [&](const LowRank& pair, const float* projected, std::uint32_t feature) {
    for (std::int32_t b = 0; b < blocks; ++b) {
      const auto block = static_cast<std::uint64_t>(b);
      step_.kernels->rows->decode->add_rows({.rows = projected + block * 32 * pair.rank,
                                             .stride = 32,
                                             .n = static_cast<int>(pair.rank),
                                             .cols = 32,
                                             .factors = factors_,
                                             .out = y + (block * n + feature) * 32});
    }
  };
  each_used(worker_, std::span(step_.weights).subspan(part, 1), worker_.batch->adapter_scales,
            [&](const LowRank& pair, std::uint64_t place, float scale) {
              const float* projected = from + 32 * static_cast<std::uint64_t>(blocks) * place;
              for (std::uint32_t f = 0; f < n; ++f) {
                for (std::uint32_t j = 0; j < pair.rank; ++j) {
                  factors_[j] = scale * pair.b[j * pair.b_stride + row + f];
                }
                add_feature(pair, projected, f);
              }
            });
}

}  // namespace orrery::backend::cpu
