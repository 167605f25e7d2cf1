#include "engine/kv_pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/checked.hpp"
#include "memory/arena.hpp"

namespace orrery::engine {
namespace {

constexpr std::uint64_t kSystemPage = 4096;
constexpr std::int32_t kNoPage = -1;

std::uint32_t pages_for(std::uint32_t tokens) {
  return static_cast<std::uint32_t>(ceil_div(tokens, plan::kPageTokens));
}

}  // namespace

std::uint64_t pages_of_sequence(const plan::CacheGroup& group, std::uint32_t context,
                                std::uint32_t slice) {
  const std::uint64_t all = pages_for(context);
  switch (group.kind) {
    case plan::CacheKind::full:
      return all;
    case plan::CacheKind::window:
      // The window, one slice that is written before anything is dropped, a partial page of each.
      return std::min(all, ceil_div(std::uint64_t{group.window} + slice, plan::kPageTokens) + 2);
    case plan::CacheKind::state:
      return std::min<std::uint64_t>(all, max_snapshots(group) + 1);
  }
  ORRERY_CHECK(false);
}

Result<std::unique_ptr<KvPages>> KvPages::create(std::span<const plan::CacheGroup> groups,
                                                 const KvOptions& options) {
  ORRERY_CHECK(options.sequences > 0 && options.context > 0);
  std::unique_ptr<KvPages> kv(new KvPages);
  kv->context_ = options.context;
  kv->stride_ = pages_for(options.context);
  kv->budget_ = options.budget_bytes;
  kv->sequences_.resize(options.sequences);
  kv->groups_.resize(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    kv->groups_[i].shape = groups[i];
    ORRERY_TRY_VOID(kv->map_group(kv->groups_[i], options));
  }
  return kv;
}

Status KvPages::map_group(Group& group, const KvOptions& options) {
  const std::uint64_t pages = pages_of_sequence(group.shape, options.context, options.slice);
  const CheckedU64 capacity = checked_mul(pages, options.sequences);
  const CheckedU64 bytes =
      checked_align_up(checked_mul(capacity, group.shape.page_bytes()), kSystemPage);
  if (!bytes || *capacity > (1U << 30)) {
    return fail("E_MEMORY", fmt::format("the cache of {} sequences of {} tokens is too large",
                                        options.sequences, options.context));
  }
  auto region = memory::Arena::process().reserve(*bytes);
  if (!region) {
    return fail("E_MEMORY",
                fmt::format("the system refuses {} bytes of address space for the cache; ask for a "
                            "smaller context",
                            *bytes));
  }
  group.region = std::move(*region);
  group.capacity = static_cast<std::uint32_t>(*capacity);
  group.users.resize(group.capacity);
  group.tables.assign(std::size_t{stride_} * options.sequences, kNoPage);
  if (group.is_state()) group.states.resize(options.sequences);
  group.free.resize(group.capacity);
  // Taken from the back: page 0 first.
  for (std::uint32_t i = 0; i < group.capacity; ++i) {
    group.free[i] = static_cast<std::int32_t>(group.capacity - 1 - i);
  }
  return {};
}

std::vector<backend::PagePool> KvPages::pools() const {
  std::vector<backend::PagePool> pools;
  for (const Group& group : groups_) pools.push_back({group.base(), group.capacity});
  return pools;
}

std::int32_t* KvPages::entries(Group& group, SequenceId sequence) {
  return group.tables.data() + static_cast<std::size_t>(sequence) * stride_;
}

const std::int32_t* KvPages::entries(const Group& group, SequenceId sequence) const {
  return group.tables.data() + static_cast<std::size_t>(sequence) * stride_;
}

const std::int32_t* KvPages::table(SequenceId sequence, std::size_t group) const {
  return entries(groups_[group], sequence);
}

Result<SequenceId> KvPages::open() {
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].is_open) continue;
    sequences_[i] = {true, 0, false};
    return static_cast<SequenceId>(i);
  }
  return fail("E_SEQUENCES",
              fmt::format("all {} sequences of the model are in use", sequences_.size()));
}

void KvPages::close(SequenceId sequence) {
  truncate(sequence, 0);
  sequences_[sequence].is_open = false;
}

// Gives memory of free pages back to the system until `bytes` fit into the budget.
bool KvPages::reclaim(std::uint64_t bytes) {
  for (Group& group : groups_) {
    const std::uint64_t page_bytes = group.shape.page_bytes();
    while (committed_ + bytes > budget_ && group.free_with_memory > 0) {
      // The oldest free page with memory joins the free pages without.
      const std::size_t at = group.free.size() - group.free_with_memory;
      const auto offset = static_cast<std::uint64_t>(group.free[at]) * page_bytes;
      group.region.discard(offset, page_bytes);
      --group.free_with_memory;
      committed_ -= page_bytes;
    }
  }
  return committed_ + bytes <= budget_;
}

// A page of the group, or kNoPage when the budget or the system refuses.
std::int32_t KvPages::take(Group& group) {
  ORRERY_CHECK(!group.free.empty());
  const std::uint64_t page_bytes = group.shape.page_bytes();
  const std::int32_t page = group.free.back();
  if (group.free_with_memory == 0) {
    if (!reclaim(page_bytes)) return kNoPage;
    if (!group.region.commit((static_cast<std::uint64_t>(page) + 1) * page_bytes)) return kNoPage;
    committed_ += page_bytes;
  } else {
    --group.free_with_memory;
  }
  group.free.pop_back();
  group.users[page] = 1;
  return page;
}

void KvPages::release(Group& group, std::int32_t page) {
  ORRERY_CHECK(group.users[page] > 0);
  if (--group.users[page] > 0) return;
  if (unmap(group, page)) return;
  group.free.push_back(page);
  ++group.free_with_memory;
}

Status KvPages::extend(SequenceId sequence, std::uint32_t new_length) {
  Sequence& state = sequences_[sequence];
  ORRERY_CHECK(state.is_open && new_length >= state.length);
  if (state.is_lost) return std::unexpected(lost_pages());
  if (new_length > context_) {
    return fail("E_CONTEXT", fmt::format("{} tokens do not fit into the context of {} tokens",
                                         new_length, context_));
  }
  for (Group& group : groups_) {
    Status extended = group.is_state() ? extend_state(group, sequence, new_length)
                                       : extend_group(group, sequence, new_length);
    if (extended) continue;
    take_back(sequence, std::exchange(state.length, new_length));
    return extended;
  }
  state.length = new_length;
  return {};
}

void KvPages::take_back(SequenceId sequence, std::uint32_t length) {
  ORRERY_CHECK(length <= sequences_[sequence].length);
  for (Group& group : groups_) {
    if (group.is_state()) {
      take_back_state(group, sequence, length);
    } else {
      release_from(group, sequence, pages_for(length));
    }
  }
  sequences_[sequence].length = length;
}

// Pages of the table from entry `first` to that of the last position.
void KvPages::release_from(Group& group, SequenceId sequence, std::uint32_t first) {
  std::int32_t* table = entries(group, sequence);
  for (std::uint32_t i = pages_for(sequences_[sequence].length); i > first; --i) {
    if (table[i - 1] != kNoPage) release(group, table[i - 1]);
    table[i - 1] = kNoPage;
  }
}

Error KvPages::out_of_memory(SequenceId sequence) const {
  return {"E_MEMORY", fmt::format("the cache has used up its {} bytes at {} tokens; close other "
                                  "conversations or start with a smaller context",
                                  budget_, sequences_[sequence].length)};
}

// Copies a page that other sequences hold, too; false where there is no room.
bool KvPages::own_page(Group& group, std::int32_t& page) {
  if (group.users[page] == 1) return true;
  const std::int32_t own = take(group);
  if (own == kNoPage) return false;
  const std::uint64_t bytes = group.shape.page_bytes();
  std::memcpy(group.base() + static_cast<std::uint64_t>(own) * bytes,
              group.base() + static_cast<std::uint64_t>(page) * bytes, bytes);
  release(group, page);
  page = own;
  return true;
}

Status KvPages::extend_group(Group& group, SequenceId sequence, std::uint32_t new_length) {
  std::int32_t* table = entries(group, sequence);
  const std::uint32_t length = sequences_[sequence].length;
  if (length % plan::kPageTokens != 0 && new_length > length) {
    if (!own_page(group, table[length / plan::kPageTokens])) {
      return std::unexpected(out_of_memory(sequence));
    }
  }
  for (std::uint32_t i = pages_for(length); i < pages_for(new_length); ++i) {
    table[i] = take(group);
    if (table[i] == kNoPage) return std::unexpected(out_of_memory(sequence));
  }
  return {};
}

void KvPages::truncate(SequenceId sequence, std::uint32_t new_length) {
  Sequence& state = sequences_[sequence];
  ORRERY_CHECK(state.is_open && new_length <= state.length);
  for (Group& group : groups_) {
    if (group.is_state()) {
      truncate_state(group, sequence, new_length);
    } else {
      release_from(group, sequence, pages_for(new_length));
    }
  }
  state.length = new_length;
  if (new_length == 0) state.is_lost = false;
}

// The first page that a token at position `length` reads.
std::uint32_t KvPages::first_needed(const Group& group, std::uint32_t length) const {
  if (group.shape.kind != plan::CacheKind::window || length < group.shape.window) return 0;
  return (length - group.shape.window + 1) / plan::kPageTokens;
}

// The same for one group.
std::uint32_t KvPages::held(const Group& group, SequenceId sequence, std::uint32_t length) const {
  if (group.is_state()) {
    const States& states = group.states[static_cast<std::size_t>(sequence)];
    const bool is_end = length == sequences_[sequence].length && states.live;
    return is_end ? length : states.boundary(length);
  }
  const std::int32_t* table = entries(group, sequence);
  const std::uint32_t first = first_needed(group, length);
  const bool is_seen = first >= pages_for(length) || table[first] != kNoPage;
  // The page that goes on being written must still be there too.
  return is_seen && table[(length - 1) / plan::kPageTokens] != kNoPage ? length : 0;
}

std::uint32_t KvPages::reusable(SequenceId sequence, std::uint32_t length) const {
  ORRERY_CHECK(length <= sequences_[sequence].length);
  if (sequences_[sequence].is_lost) return 0;
  // Where a group holds less, all must hold that.
  for (std::size_t agreed = 0; agreed < groups_.size() && length > 0;) {
    const std::uint32_t less = held(groups_[agreed], sequence, length);
    agreed = less == length ? agreed + 1 : 0;
    length = less;
  }
  return length;
}

void KvPages::drop_behind(SequenceId sequence) {
  for (Group& group : groups_) {
    std::int32_t* table = entries(group, sequence);
    const std::uint32_t first = first_needed(group, sequences_[sequence].length);
    for (std::uint32_t i = first; i > 0 && table[i - 1] != kNoPage; --i) {
      release(group, table[i - 1]);
      table[i - 1] = kNoPage;
    }
  }
}

Status KvPages::roll(SequenceId sequence, std::uint32_t first, std::uint32_t count) {
  Sequence& state = sequences_[sequence];
  if (state.is_lost) return std::unexpected(lost_pages());
  const std::uint32_t pages = pages_for(state.length);
  ORRERY_CHECK(std::uint64_t{first + count} * plan::kPageTokens <= state.length);
  for (Group& group : groups_) {
    ORRERY_CHECK(!group.is_state());
    std::int32_t* table = entries(group, sequence);
    for (std::uint32_t i = first + count; i < pages; ++i) {
      if (table[i] == kNoPage || own_page(group, table[i])) continue;
      return std::unexpected(out_of_memory(sequence));
    }
  }
  for (Group& group : groups_) {
    std::int32_t* table = entries(group, sequence);
    for (std::uint32_t i = first; i < first + count; ++i) {
      if (table[i] != kNoPage) release(group, table[i]);
    }
    std::copy(table + first + count, table + pages, table + first);
    std::fill(table + pages - count, table + pages, kNoPage);
  }
  state.length -= count * plan::kPageTokens;
  return {};
}

std::uint32_t KvPages::share_prefix(SequenceId from, SequenceId to, std::uint32_t length) {
  ORRERY_CHECK(from != to && sequences_[to].is_open && sequences_[to].length == 0);
  length = std::min(length, sequences_[from].length);
  const std::uint32_t whole =
      reusable(from, length / plan::kPageTokens * plan::kPageTokens) / plan::kPageTokens;
  if (whole == 0) return 0;
  sequences_[to].length = whole * plan::kPageTokens;
  for (Group& group : groups_) {
    if (group.is_state()) {
      if (copy_state(group, from, to, whole - 1)) continue;
      truncate(to, 0);
      return 0;
    }
    for (std::uint32_t i = 0; i < whole; ++i) {
      const std::int32_t page = entries(group, from)[i];
      entries(group, to)[i] = page;
      if (page != kNoPage) ++group.users[page];
    }
  }
  return sequences_[to].length;
}

std::uint64_t KvPages::reserved_bytes() const {
  std::uint64_t bytes = 0;
  for (const Group& group : groups_) bytes += group.region.size();
  return bytes;
}

std::uint32_t KvPages::pages_in_use(std::size_t group) const {
  const Group& pool = groups_[group];
  return pool.capacity - static_cast<std::uint32_t>(pool.free.size());
}

}  // namespace orrery::engine
