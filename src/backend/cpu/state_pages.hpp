// Where the steps of layers with a state read and write it (plan.hpp, CacheGroup).
#pragma once

#include <algorithm>

#include "backend/cpu/step.hpp"
#include "base/check.hpp"

namespace orrery::backend::cpu {

class StatePages {
 public:
  // `first`: floats of the layer before the part that the step uses.
  StatePages(const CompileContext& context, const plan::Step& step, std::uint64_t first)
      : group_(static_cast<std::size_t>(step.group)) {
    const plan::CacheGroup& group = context.plan->groups[group_];
    page_bytes_ = group.page_bytes();
    first_ = context.bindings->pools[group_].base +
             group.layer_bytes() * static_cast<std::uint64_t>(step.group_layer) + 4 * first;
  }

  // What the token before left; null before the first of a sequence.
  const float* before(const Batch& batch, std::int32_t row) const {
    const std::int32_t position = batch.positions[row];
    return position == 0 ? nullptr : page(batch, row, position - 1);
  }
  float* after(const Batch& batch, std::int32_t row) const {
    return page(batch, row, batch.positions[row]);
  }

 private:
  float* page(const Batch& batch, std::int32_t row, std::int32_t position) const {
    const std::int32_t index = position / static_cast<std::int32_t>(plan::kPageTokens);
    const std::int32_t number =
        batch.page_tables[group_][batch.row_sequence[row] * batch.pages_stride + index];
    ORRERY_CHECK(number >= 0);
    return reinterpret_cast<float*>(first_ + static_cast<std::uint64_t>(number) * page_bytes_);
  }

  std::size_t group_;
  std::uint64_t page_bytes_ = 0;
  std::byte* first_ = nullptr;
};

// f(first row, n) for the runs of rows, in order, that belong to one sequence and end in one page;
// at most `most` rows, of one block where `blocks` says so.
template <class F>
void each_run(const Batch& batch, std::int32_t most, bool blocks, F f) {
  const auto page = [&](std::int32_t row) {
    return batch.positions[row] / static_cast<std::int32_t>(plan::kPageTokens);
  };
  for (std::int32_t first = 0, end = 0; first < batch.n_tokens; first = end) {
    std::int32_t limit = std::min(batch.n_tokens, first + most);
    if (blocks) limit = std::min(limit, (first / 32 + 1) * 32);
    end = first + 1;
    while (end < limit && page(end) == page(first) &&
           batch.row_sequence[end] == batch.row_sequence[first]) {
      ++end;
    }
    f(first, end - first);
  }
}

// The tokens behind the last one of an F block's `features` features stay finite.
inline void clear_padding(const BufferRef& out, std::uint32_t begin, std::uint32_t features,
                          std::int32_t n_tokens) {
  const std::int32_t used = n_tokens % 32;
  if (used == 0) return;
  float* x = out.block(n_tokens / 32) + std::size_t{begin} * 32;
  for (std::uint32_t f = 0; f < features; ++f) std::fill(x + 32 * f + used, x + 32 * (f + 1), 0.0F);
}

}  // namespace orrery::backend::cpu
