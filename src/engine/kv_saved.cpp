// Pages of sequences that are saved and restored.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/checked.hpp"
#include "engine/kv_pages.hpp"

namespace orrery::engine {
namespace {

constexpr std::uint64_t kSystemPage = 4096;
constexpr std::int32_t kNoPage = -1;

}  // namespace

std::vector<plan::CacheGroup> KvPages::groups() const {
  std::vector<plan::CacheGroup> shapes;
  for (const Group& group : groups_) shapes.push_back(group.shape);
  return shapes;
}

std::uint32_t KvPages::first_entry(std::size_t group, std::uint32_t length) const {
  return first_needed(groups_[group], length);
}

std::vector<std::uint32_t> KvPages::needed_entries(SequenceId sequence, std::size_t group) const {
  const Group& pool = groups_[group];
  const std::uint32_t length = sequences_[sequence].length;
  const auto end = static_cast<std::uint32_t>(ceil_div(length, plan::kPageTokens));
  std::vector<std::uint32_t> needed;
  if (pool.is_state()) {
    const States& states = pool.states[static_cast<std::size_t>(sequence)];
    needed.assign(states.kept.begin(), states.kept.begin() + states.n_kept);
    if (states.live) needed.push_back(end - 1);
    return needed;
  }
  for (std::uint32_t i = first_needed(pool, length); i < end; ++i) needed.push_back(i);
  return needed;
}

std::span<std::byte> KvPages::page(SequenceId sequence, std::size_t group,
                                   std::uint32_t entry) const {
  const Group& pool = groups_[group];
  const std::int32_t page = entries(pool, sequence)[entry];
  ORRERY_CHECK(page != kNoPage);
  const std::uint64_t bytes = pool.shape.page_bytes();
  return {pool.base() + static_cast<std::uint64_t>(page) * bytes, bytes};
}

Status KvPages::place(SequenceId sequence, std::uint32_t length,
                      std::span<const std::vector<std::uint32_t>> entries_of) {
  Sequence& state = sequences_[sequence];
  ORRERY_CHECK(state.is_open && state.length == 0 && length <= context_);
  ORRERY_CHECK(entries_of.size() == groups_.size());
  if (length == 0) return {};
  state.length = length;  // what truncate() goes by
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    std::int32_t* table = entries(group, sequence);
    for (const std::uint32_t entry : entries_of[g]) {
      ORRERY_CHECK(std::uint64_t{entry} * plan::kPageTokens < length);
      const std::int32_t page = take(group);
      if (page == kNoPage) {
        const Error full = out_of_memory(sequence);
        truncate(sequence, 0);
        return std::unexpected(full);
      }
      table[entry] = page;
      if (!group.is_state()) continue;
      States& states = group.states[static_cast<std::size_t>(sequence)];
      states.live = entry == (length - 1) / plan::kPageTokens;
      if (states.live) continue;
      ORRERY_CHECK(states.n_kept < max_snapshots(group.shape));
      states.kept[states.n_kept++] = entry;
    }
  }
  return {};
}

bool KvPages::can_map(std::size_t group) const {
  return groups_[group].shape.page_bytes() % kSystemPage == 0;
}

void KvPages::set_mapped(SequenceId sequence, std::size_t group, std::uint32_t entry) {
  Group& pool = groups_[group];
  ORRERY_CHECK(can_map(group));
  if (pool.guard == nullptr) {
    pool.guard = std::make_unique<memory::BusGuard>(pool.base(), pool.region.size(),
                                                    pool.shape.page_bytes());
  }
  pool.mapped.resize(pool.capacity);
  pool.mapped[static_cast<std::size_t>(entries(pool, sequence)[entry])] = true;
}

// A page that nobody uses any more becomes memory that is not committed. False where it is no
// mapping, or the system refuses: then it is a page like any other.
bool KvPages::unmap(Group& group, std::int32_t page) {
  const auto at = static_cast<std::size_t>(page);
  if (group.mapped.empty() || !group.mapped[at]) return false;
  const std::uint64_t bytes = group.shape.page_bytes();
  if (!group.region.renew(at * bytes, bytes)) return false;
  group.mapped[at] = false;
  committed_ -= bytes;
  group.free.insert(group.free.end() - group.free_with_memory, page);
  return true;
}

Status KvPages::check_mapped() {
  bool is_whole = true;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    if (!group.guard || !group.guard->was_hit()) continue;
    is_whole = false;
    group.guard->forget_hit();
    for (std::size_t s = 0; s < sequences_.size(); ++s) {
      const std::int32_t* table = entries(group, static_cast<SequenceId>(s));
      sequences_[s].is_lost |= std::any_of(table, table + stride_, [&](std::int32_t page) {
        return page != kNoPage && group.mapped[static_cast<std::size_t>(page)];
      });
    }
  }
  if (is_whole) return {};
  return std::unexpected(lost_pages());
}

Error KvPages::lost_pages() {
  return {"E_CHANGED",
          "a saved session was cut or its disk failed while its pages were in use; ask again: it "
          "is read anew from its text"};
}

}  // namespace orrery::engine
