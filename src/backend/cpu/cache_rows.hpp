// Where the steps that fill the cache put the K and V of a token.
#pragma once

#include <algorithm>

#include "backend/cpu/step.hpp"
#include "base/check.hpp"

namespace orrery::backend::cpu {

// Where a token's K or V goes inside the pages of its sequence.
struct CacheRows {
  std::byte* pool = nullptr;
  std::size_t page_bytes = 0, layer_offset = 0, head_bytes = 0, k_row_bytes = 0, v_offset = 0;
  DType k_type = DType::f16, v_type = DType::f16;
  std::size_t group = 0;

  CacheRows(const CompileContext& context, const plan::Step& step)
      : group(static_cast<std::size_t>(step.group)) {
    const plan::CacheGroup& cache = context.plan->groups[group];
    pool = context.bindings->pools[group].base;
    page_bytes = cache.page_bytes();
    head_bytes = cache.head_bytes();
    layer_offset = head_bytes * cache.kv_heads * static_cast<std::size_t>(step.group_layer);
    k_row_bytes = cache.k_row_bytes();
    v_offset = cache.v_offset();
    k_type = cache.k_type;
    v_type = cache.v_type;
  }

  // The layer's part of a page of the sequence that `row` belongs to.
  std::byte* page_at(const Batch& batch, std::int32_t row, std::int32_t index) const {
    const std::int32_t sequence = batch.row_sequence[row];
    const std::int32_t number = batch.page_tables[group][sequence * batch.pages_stride + index];
    ORRERY_CHECK(number >= 0);
    return pool + static_cast<std::size_t>(number) * page_bytes + layer_offset;
  }
  DType type(CacheSide side) const { return side == CacheSide::keys ? k_type : v_type; }
  kernels::CacheSlot slot(const Batch& batch, std::int32_t row, std::uint32_t head,
                          CacheSide side) const {
    constexpr auto kTokens = static_cast<std::int32_t>(plan::kPageTokens);
    const std::int32_t position = batch.positions[row];
    std::byte* keys = page_at(batch, row, position / kTokens) + head * head_bytes;
    return {side == CacheSide::keys ? keys : keys + v_offset, position % kTokens};
  }
};

// One head of a row, x (dim), into its page.
inline void store_row(const kernels::RowKernels& kernels, const CacheRows& cache,
                      const Batch& batch, std::int32_t row, std::uint32_t head, CacheSide side,
                      const float* x, std::uint32_t dim) {
  const kernels::CacheSlot to = cache.slot(batch, row, head, side);
  kernels.store_cache({x, to.bytes, static_cast<int>(dim), to.slot, cache.type(side), side});
}

// One head of a block of tokens, x (dim, 32), into its pages.
inline void store_block(const kernels::BlockKernels& kernels, const CacheRows& cache,
                        const Batch& batch, std::int32_t block, std::uint32_t head, CacheSide side,
                        const float* x, std::uint32_t dim) {
  kernels::CacheSlot to[32] = {};
  const std::int32_t n = std::min(32, batch.n_tokens - 32 * block);
  for (std::int32_t t = 0; t < n; ++t) to[t] = cache.slot(batch, 32 * block + t, head, side);
  kernels.store_cache({x, static_cast<int>(dim), to, cache.type(side), side});
}

}  // namespace orrery::backend::cpu
