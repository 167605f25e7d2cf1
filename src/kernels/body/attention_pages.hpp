// What the kinds of decode attention share: where a part's pages are, and where its scores.
#pragma once

#include "kernels/body/cache_types.hpp"
#include "kernels/row_kernels.hpp"

namespace orrery::kernels {
namespace {

constexpr int kPartPositions = 256;
constexpr int kPageTokens = kCachePageTokens;
// Between the scores of heads: room for sixteen before and behind those of a part.
constexpr int kScoreStride = kPartPositions + 32;

[[gnu::always_inline]] inline const std::byte* page_of(const AttentionPart& a, int position) {
  const auto page = static_cast<std::size_t>(a.pages[position / kPageTokens]);
  return a.pool + page * a.page_bytes + a.head_offset;
}

// What is read a part's length later: pages lie apart, so the hardware does not foresee it. It is
// fetched token by token while others are worked on, into L2, which has many more requests on
// their way than L1 does.
struct Ahead {
  const std::byte* at = nullptr;
  std::size_t token_bytes = 0;

  // As much as `n` tokens from `slot` on take.
  [[gnu::always_inline]] void fetch(int slot, int n) const {
    if (at == nullptr) return;
    const std::byte* p = at + token_bytes * static_cast<std::size_t>(slot);
    for (std::size_t i = 0; i < token_bytes * static_cast<std::size_t>(n); i += 64)
      __builtin_prefetch(p + i, 0, 2);
  }
};

// While the keys of a page are read: its values.
[[gnu::always_inline]] inline Ahead values_ahead(const AttentionPart& a, int position) {
  if (a.v_offset == 0) return {};  // they are in the keys
  return {page_of(a, position) + a.v_offset, cache_row_bytes(a.v_type, a.v_dim)};
}

// While its values are read: keys of the next part. Of `n` passes over the values each fetches its
// share.
[[gnu::always_inline]] inline Ahead keys_ahead(const AttentionPart& a, int position, int pass,
                                               int n) {
  const int next = position / kPageTokens * kPageTokens + kPartPositions;
  if (next >= a.filled) return {};
  const std::size_t share = cache_row_bytes(a.k_type, a.k_dim) / static_cast<std::size_t>(n);
  return {page_of(a, next) + static_cast<std::size_t>(pass * kPageTokens) * share, share};
}

}  // namespace
}  // namespace orrery::kernels
