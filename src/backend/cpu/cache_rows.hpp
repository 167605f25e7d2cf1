// Where the steps that fill the cache put the K and V of a token.
#pragma once

#include <algorithm>
#include <cstring>

#include "backend/cpu/step.hpp"
#include "base/check.hpp"

namespace orrery::backend::cpu {

// The address of a token's K or V row inside the pages of its sequence.
struct CacheRows {
  std::byte* pool = nullptr;
  std::size_t page_bytes = 0, layer_offset = 0, head_bytes = 0, k_row_bytes = 0, v_row_bytes = 0;
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
    v_row_bytes = cache.v_row_bytes();
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
  std::byte* page(const Batch& batch, std::int32_t row, std::uint32_t head) const {
    const std::int32_t index = batch.positions[row] / static_cast<std::int32_t>(plan::kPageTokens);
    return page_at(batch, row, index) + head * head_bytes;
  }
  static std::size_t slot(const Batch& batch, std::int32_t row) {
    return static_cast<std::size_t>(batch.positions[row]) % plan::kPageTokens;
  }
  std::byte* k_row(const Batch& batch, std::int32_t row, std::uint32_t head) const {
    return page(batch, row, head) + slot(batch, row) * k_row_bytes;
  }
  std::byte* v_row(const Batch& batch, std::int32_t row, std::uint32_t head) const {
    return page(batch, row, head) + plan::kPageTokens * k_row_bytes +
           slot(batch, row) * v_row_bytes;
  }
};

// n values as elements of a cache row.
inline void store_row(const kernels::RowKernels& kernels, DType type, const float* x,
                      std::uint32_t n, std::byte* to) {
  if (type == DType::f32) {
    std::memcpy(to, x, std::size_t{n} * 4);
  } else if (type == DType::bf16) {
    kernels.to_bf16(x, to, static_cast<int>(n));
  } else {
    kernels.to_f16(x, to, static_cast<int>(n));
  }
}

// One head of a block of tokens, x (dim, 32), into its pages.
inline void store_block(const kernels::BlockKernels& kernels, const CacheRows& cache,
                        const Batch& batch, std::int32_t block, std::uint32_t head, const float* x,
                        std::uint32_t dim, bool is_k) {
  void* rows[32] = {};
  const std::int32_t n = std::min(32, batch.n_tokens - 32 * block);
  for (std::int32_t t = 0; t < n; ++t) {
    const std::int32_t row = 32 * block + t;
    rows[t] = is_k ? cache.k_row(batch, row, head) : cache.v_row(batch, row, head);
  }
  kernels.store_cache({x, static_cast<int>(dim), rows, is_k ? cache.k_type : cache.v_type});
}

}  // namespace orrery::backend::cpu
