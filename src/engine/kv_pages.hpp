// Pages of cached keys and values. Each cache group has a pool: address space for the full context
// of every sequence, memory committed page by page from one budget in bytes. That is the only
// thing that grows after load. A sequence has one page table per group; entry i covers positions
// [64 i, 64 i + 64).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "base/result.hpp"
#include "plan/plan.hpp"

namespace orrery::engine {

using SequenceId = std::int32_t;

struct KvOptions {
  std::uint32_t sequences = 1;     // open at once
  std::uint32_t context = 0;       // tokens of each
  std::uint32_t slice = 1;         // most tokens that are written before pages are dropped
  std::uint64_t budget_bytes = 0;  // of all pools together
};

class KvPages {
 public:
  // E_MEMORY when the address space is refused.
  static Result<std::unique_ptr<KvPages>> create(std::span<const plan::CacheGroup> groups,
                                                 const KvOptions& options);
  ~KvPages();
  KvPages(const KvPages&) = delete;
  KvPages& operator=(const KvPages&) = delete;

  // In the order of the groups.
  std::vector<backend::PagePool> pools() const;
  std::int32_t stride() const { return static_cast<std::int32_t>(stride_); }  // entries of a table
  std::size_t n_groups() const { return groups_.size(); }

  // E_SEQUENCES when all are open.
  Result<SequenceId> open();
  void close(SequenceId sequence);
  // Tokens that the sequence's pages cover.
  std::uint32_t length(SequenceId sequence) const { return sequences_[sequence].length; }
  const std::int32_t* table(SequenceId sequence, std::size_t group) const;

  // Makes positions [length, new_length) writable; pages shared with another sequence are copied
  // before they change. E_CONTEXT beyond the context; E_MEMORY when the budget is used up: then
  // nothing has changed.
  Status extend(SequenceId sequence, std::uint32_t new_length);
  // Forgets positions from new_length on.
  void truncate(SequenceId sequence, std::uint32_t new_length);
  // How much of the first `length` positions the sequence can go on from: `length`, or 0 where a
  // window group has dropped a page that the next token would read.
  std::uint32_t reusable(SequenceId sequence, std::uint32_t length) const;
  // Returns pages that lie wholly behind the window of the token at length().
  void drop_behind(SequenceId sequence);
  // Lets an empty sequence begin with the whole pages of the first `length` positions of another:
  // they are counted, not copied. Returns the positions covered (a multiple of 64, or 0).
  std::uint32_t share_prefix(SequenceId from, SequenceId to, std::uint32_t length);

  std::uint64_t committed_bytes() const { return committed_; }
  std::uint64_t budget_bytes() const { return budget_; }
  std::uint64_t reserved_bytes() const;
  std::uint32_t pages_in_use(std::size_t group) const;

 private:
  struct Group {
    plan::CacheGroup shape;
    std::byte* base = nullptr;
    std::uint64_t reserved = 0;      // bytes of address space
    std::uint64_t accessible = 0;    // bytes from base that may be touched
    std::uint32_t capacity = 0;      // pages
    std::vector<std::int32_t> free;  // pages nobody uses, those with memory last
    std::uint32_t free_with_memory = 0;
    std::vector<std::uint32_t> users;  // (capacity) sequences that hold the page
    std::vector<std::int32_t> tables;  // (sequences, stride), -1: no page
  };
  struct Sequence {
    bool is_open = false;
    std::uint32_t length = 0;
  };

  KvPages() = default;
  Status map_group(Group& group, const KvOptions& options);
  std::int32_t* entries(Group& group, SequenceId sequence);
  const std::int32_t* entries(const Group& group, SequenceId sequence) const;
  std::int32_t take(Group& group);
  void release(Group& group, std::int32_t page);
  bool reclaim(std::uint64_t bytes);
  Status extend_group(Group& group, SequenceId sequence, std::uint32_t new_length);
  std::uint32_t first_needed(const Group& group, std::uint32_t length) const;

  std::vector<Group> groups_;
  std::vector<Sequence> sequences_;
  std::uint32_t context_ = 0;
  std::uint32_t stride_ = 0;
  std::uint64_t budget_ = 0;
  std::uint64_t committed_ = 0;
};

}  // namespace orrery::engine
