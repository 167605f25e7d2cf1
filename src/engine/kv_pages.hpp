// Pages of cached keys and values. Each cache group has a pool: address space for the full context
// of every sequence, memory committed page by page from one budget in bytes. That is the only
// thing that grows after load. A sequence has one page table per group; entry i covers positions
// [64 i, 64 i + 64).
//
// A page of a state group is no store of its positions but what its layers know after the last of
// them (plan.hpp), so a sequence can go on from its end or from a page that was completed and kept:
// a snapshot. Few are kept, the closer to the end the denser (kv_state.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "base/result.hpp"
#include "memory/bus_guard.hpp"
#include "memory/region.hpp"
#include "plan/plan.hpp"

namespace orrery::engine {

using SequenceId = std::int32_t;

struct KvOptions {
  std::uint32_t sequences = 1;     // open at once
  std::uint32_t context = 0;       // tokens of each
  std::uint32_t slice = 1;         // most tokens that are written before pages are dropped
  std::uint64_t budget_bytes = 0;  // of all pools together
};

// Completed pages that a sequence keeps of a state group at most.
inline constexpr std::uint32_t kMaxSnapshots = 16;
std::uint32_t max_snapshots(const plan::CacheGroup& group);
// Pages of a group that a sequence of `context` tokens holds at most; `slice` as in KvOptions.
std::uint64_t pages_of_sequence(const plan::CacheGroup& group, std::uint32_t context,
                                std::uint32_t slice);

class KvPages {
 public:
  // E_MEMORY when the address space is refused.
  static Result<std::unique_ptr<KvPages>> create(std::span<const plan::CacheGroup> groups,
                                                 const KvOptions& options);
  KvPages(const KvPages&) = delete;
  KvPages& operator=(const KvPages&) = delete;

  // In the order of the groups.
  std::vector<backend::PagePool> pools() const;
  std::int32_t stride() const { return static_cast<std::int32_t>(stride_); }  // entries of a table
  std::size_t n_groups() const { return groups_.size(); }
  std::vector<plan::CacheGroup> groups() const;
  std::uint32_t context() const { return context_; }  // tokens of a sequence

  // E_SEQUENCES when all are open.
  Result<SequenceId> open();
  void close(SequenceId sequence);
  // Tokens that the sequence's pages cover.
  std::uint32_t length(SequenceId sequence) const { return sequences_[sequence].length; }
  const std::int32_t* table(SequenceId sequence, std::size_t group) const;

  // Makes positions [length, new_length) writable; pages shared with another sequence are copied
  // before they change. E_CONTEXT beyond the context; E_MEMORY when the budget is used up: then
  // nothing has changed but for snapshots that had to go.
  Status extend(SequenceId sequence, std::uint32_t new_length);
  // Undoes an extension from `length` that was not run.
  void take_back(SequenceId sequence, std::uint32_t length);
  // Forgets positions from new_length on. Before it is extended again, reusable() must give
  // new_length.
  void truncate(SequenceId sequence, std::uint32_t new_length);
  // How much of the first `length` positions the sequence can go on from: `length`, or the last
  // snapshot before it, or 0 where a window group has dropped a page that the next token would
  // read.
  std::uint32_t reusable(SequenceId sequence, std::uint32_t length) const;
  // Returns pages that lie wholly behind the window of the token at length().
  void drop_behind(SequenceId sequence);
  // Drops entries [first, first + count) of the tables, whole pages; those behind them move up.
  // Pages behind them that others hold too are copied, to be written: E_MEMORY, and nothing has
  // changed, where there is no room. No group is a state.
  Status roll(SequenceId sequence, std::uint32_t first, std::uint32_t count);
  // Lets an empty sequence begin with the whole pages of the first `length` positions of another:
  // they are counted, not copied, but for the one of each state group. Returns the positions
  // covered (a multiple of 64, or 0).
  std::uint32_t share_prefix(SequenceId from, SequenceId to, std::uint32_t length);

  // kv_saved.cpp: sequences that are saved and restored (session_file.hpp).
  //
  // Entries of a group's table that a sequence of this length goes on from, ascending: those from
  // the first that a next token reads; of a state group the snapshots and the page of the end.
  std::vector<std::uint32_t> needed_entries(SequenceId sequence, std::size_t group) const;
  // What is in such an entry: page_bytes() of the group.
  std::span<std::byte> page(SequenceId sequence, std::size_t group, std::uint32_t entry) const;
  // The first entry that a token at `length` reads, of any kind but state.
  std::uint32_t first_entry(std::size_t group, std::uint32_t length) const;
  // Gives an empty sequence `length` positions with pages in these entries (one list a group,
  // needed_entries() of some other sequence, at most max_snapshots() + 1 of a state group): the
  // caller fills them. E_MEMORY: the sequence is empty as before.
  Status place(SequenceId sequence, std::uint32_t length,
               std::span<const std::vector<std::uint32_t>> entries);
  // The page's memory is now a private mapping of a file; it is memory again once nobody uses it.
  void set_mapped(SequenceId sequence, std::size_t group, std::uint32_t entry);
  bool can_map(std::size_t group) const;  // the system's pages divide those of the group
  // E_CHANGED, once, when bytes of mapped pages were lost because their file was cut; all sequences
  // with mapped pages are lost then: nothing of them is reusable, and until they are truncated to 0
  // they cannot be extended (E_CHANGED).
  Status check_mapped();
  bool is_lost(SequenceId sequence) const { return sequences_[sequence].is_lost; }

  std::uint64_t committed_bytes() const { return committed_; }
  std::uint64_t budget_bytes() const { return budget_; }
  std::uint64_t reserved_bytes() const;
  std::uint32_t pages_in_use(std::size_t group) const;

 private:
  // Of one sequence in a state group, as indices into its table. Every page has one user.
  struct States {
    std::array<std::uint32_t, kMaxSnapshots + 1> kept{};  // snapshots, ascending, before the end
    std::uint32_t n_kept = 0;
    bool live = false;  // the page of the last position stands for all of them

    void keep(std::uint32_t index, std::uint32_t most);
    bool keeps(std::uint32_t index) const;
    // The last position that a sequence cut to `length` can go on from.
    std::uint32_t boundary(std::uint32_t length) const;
  };
  struct Group {
    plan::CacheGroup shape;
    memory::Region region;           // committed up to the last page that was ever used
    std::uint32_t capacity = 0;      // pages
    std::vector<std::int32_t> free;  // pages nobody uses, those with memory last
    std::uint32_t free_with_memory = 0;
    std::vector<std::uint32_t> users;  // (capacity) sequences that hold the page
    std::vector<std::int32_t> tables;  // (sequences, stride), -1: no page
    std::vector<States> states;        // (sequences) of a state group
    std::vector<bool> mapped;          // (capacity) pages that are mappings of files; may be empty
    std::unique_ptr<memory::BusGuard> guard;  // once a page is mapped
    std::byte* base() const { return region.data(); }
    bool is_state() const { return shape.kind == plan::CacheKind::state; }
  };
  struct Sequence {
    bool is_open = false;
    std::uint32_t length = 0;
    bool is_lost = false;
  };

  KvPages() = default;
  Status map_group(Group& group, const KvOptions& options);
  std::int32_t* entries(Group& group, SequenceId sequence);
  const std::int32_t* entries(const Group& group, SequenceId sequence) const;
  std::int32_t take(Group& group);
  void release(Group& group, std::int32_t page);
  bool reclaim(std::uint64_t bytes);
  bool own_page(Group& group, std::int32_t& page);
  Status extend_group(Group& group, SequenceId sequence, std::uint32_t new_length);
  Error out_of_memory(SequenceId sequence) const;
  void release_from(Group& group, SequenceId sequence, std::uint32_t first);
  bool unmap(Group& group, std::int32_t page);  // kv_saved.cpp
  static Error lost_pages();
  // kv_state.cpp
  Status extend_state(Group& group, SequenceId sequence, std::uint32_t new_length);
  void take_back_state(Group& group, SequenceId sequence, std::uint32_t length);
  void truncate_state(Group& group, SequenceId sequence, std::uint32_t new_length);
  bool copy_state(Group& group, SequenceId from, SequenceId to, std::uint32_t index);
  std::uint32_t first_needed(const Group& group, std::uint32_t length) const;
  std::uint32_t held(const Group& group, SequenceId sequence, std::uint32_t length) const;

  std::vector<Group> groups_;
  std::vector<Sequence> sequences_;
  std::uint32_t context_ = 0;
  std::uint32_t stride_ = 0;
  std::uint64_t budget_ = 0;
  std::uint64_t committed_ = 0;
};

}  // namespace orrery::engine
