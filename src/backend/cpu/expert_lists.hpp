// Routing is data: the (token, expert) pairs of a batch, sorted by expert.
//
// Pair used * t + j is token t and the j-th expert of its routes. Pairs of one expert are
// neighbours in the rows of experts' buffers, in order of tokens. In blocks of 32 tokens an
// expert's rows begin with a block of their own. Each thread sorts for itself: that takes less than
// a barrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/step.hpp"

namespace orrery::backend::cpu {

// The numbers of a step over experts.
struct ExpertCounts {
  std::uint32_t experts = 0, used = 0;
  std::uint32_t tokens = 0;  // of a batch at most
  ExpertCounts() = default;
  ExpertCounts(const plan::Plan& plan, const plan::Step& step)
      : experts(step.experts), used(step.experts_used), tokens(plan.capacity.tokens) {}
  std::size_t pairs() const { return std::size_t{tokens} * used; }
};

class ExpertLists {
 public:
  // An expert that has rows.
  struct List {
    std::int32_t expert;
    std::int32_t begin, end;   // its rows
    std::int32_t first_block;  // of 32 rows
    std::int32_t rows() const { return end - begin; }
  };

  static std::size_t scratch_bytes(const ExpertCounts& counts);
  // Of the batch's tokens, into `scratch`.
  ExpertLists(const ExpertCounts& counts, const BufferRef& routes, const Worker& worker,
              std::byte* scratch);

  std::span<const List> lists() const { return lists_; }
  std::int32_t token(std::int32_t row) const {
    return pairs_[row] / static_cast<std::int32_t>(used_);
  }
  // The weight of a row's route.
  float weight(std::int32_t row) const {
    const auto used = static_cast<std::int32_t>(used_);
    const std::int32_t pair = pairs_[row];
    return routes_.row(pair / used, worker_)[used + pair % used];
  }
  // Where the pair (t, j) is.
  std::int32_t row(std::int32_t t, std::uint32_t j) const {
    return rows_[static_cast<std::size_t>(t) * used_ + j];
  }

 private:
  std::uint32_t used_;
  const BufferRef& routes_;
  const Worker& worker_;
  std::span<List> lists_;
  std::int32_t* pairs_;  // (pairs), by row
  std::int32_t* rows_;   // (pairs), by pair
};

}  // namespace orrery::backend::cpu
