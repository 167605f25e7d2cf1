#include "backend/cpu/expert_lists.hpp"

#include <algorithm>

#include "base/checked.hpp"

namespace orrery::backend::cpu {

std::size_t ExpertLists::scratch_bytes(const ExpertCounts& counts) {
  const std::size_t numbers = counts.experts + 2 * counts.pairs();
  return align_up(counts.experts * sizeof(List) + numbers * sizeof(std::int32_t), 64);
}

ExpertLists::ExpertLists(const ExpertCounts& counts, const BufferRef& routes, const Worker& worker,
                         std::byte* scratch)
    : used_(counts.used), routes_(routes), worker_(worker) {
  auto* lists = reinterpret_cast<List*>(scratch);                        // (experts)
  auto* next = reinterpret_cast<std::int32_t*>(lists + counts.experts);  // (experts)
  pairs_ = next + counts.experts;
  rows_ = pairs_ + counts.pairs();

  const std::int32_t tokens = worker.batch->n_tokens;
  const auto each_pair = [&](auto f) {
    for (std::int32_t t = 0; t < tokens; ++t) {
      const float* experts = routes.row(t, worker);
      for (std::uint32_t j = 0; j < used_; ++j) {
        f(t * static_cast<std::int32_t>(used_) + static_cast<std::int32_t>(j),
          static_cast<std::int32_t>(experts[j]));
      }
    }
  };
  std::fill(next, next + counts.experts, 0);
  each_pair([&](std::int32_t, std::int32_t expert) { ++next[expert]; });
  std::size_t n_lists = 0;
  std::int32_t begin = 0, block = 0;
  for (std::int32_t e = 0; e < static_cast<std::int32_t>(counts.experts); ++e) {
    const std::int32_t count = next[e];
    if (count == 0) continue;
    lists[n_lists++] = {e, begin, begin + count, block};
    next[e] = begin;
    begin += count;
    block += n_blocks(count);
  }
  lists_ = {lists, n_lists};
  each_pair([&](std::int32_t pair, std::int32_t expert) {
    rows_[pair] = next[expert]++;
    pairs_[rows_[pair]] = pair;
  });
}

}  // namespace orrery::backend::cpu
