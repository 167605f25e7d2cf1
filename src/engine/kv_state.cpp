// The pages of state groups: which completed ones a sequence keeps as snapshots.
//
// A run that goes on from page i into page i + 1 leaves page i behind, complete. Where it is not
// kept, both entries of the table name one page and the run changes it in place; entry i means
// nothing then. Entries behind the sequence's end are empty.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/checked.hpp"
#include "engine/kv_pages.hpp"

namespace orrery::engine {
namespace {

// Snapshots of a sequence take so much at most, but for the least number of them.
constexpr std::uint64_t kSnapshotBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kLeastSnapshots = 2;
constexpr std::int32_t kNoPage = -1;

std::uint32_t last_page(std::uint32_t length) {
  return (length - 1) / plan::kPageTokens;
}

}  // namespace

std::uint32_t max_snapshots(const plan::CacheGroup& group) {
  const std::uint64_t fit = kSnapshotBytes / std::max<std::uint64_t>(1, group.page_bytes());
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(fit, kLeastSnapshots, kMaxSnapshots));
}

// Adds the newest. Of too many that one goes whose neighbours are the closest, measured by their
// distance from the end, so that the gaps grow with it; the newest stays.
void KvPages::States::keep(std::uint32_t index, std::uint32_t most) {
  kept[n_kept++] = index;
  if (n_kept <= most) return;
  std::uint32_t victim = 0;
  double smallest = 2.0;
  for (std::uint32_t i = 0; i + 1 < n_kept; ++i) {
    const double before = i == 0 ? -1.0 : kept[i - 1];
    const double gap = (kept[i + 1] - before) / (index + 1.0 - before);
    if (gap >= smallest) continue;
    smallest = gap;
    victim = i;
  }
  std::copy(kept.begin() + victim + 1, kept.begin() + n_kept, kept.begin() + victim);
  --n_kept;
}

bool KvPages::States::keeps(std::uint32_t index) const {
  return std::find(kept.begin(), kept.begin() + n_kept, index) != kept.begin() + n_kept;
}

std::uint32_t KvPages::States::boundary(std::uint32_t length) const {
  std::uint32_t position = 0;
  for (std::uint32_t i = 0; i < n_kept; ++i) {
    const std::uint32_t end = (kept[i] + 1) * plan::kPageTokens;
    if (end <= length) position = end;
  }
  return position;
}

Status KvPages::extend_state(Group& group, SequenceId sequence, std::uint32_t new_length) {
  States& states = group.states[static_cast<std::size_t>(sequence)];
  std::int32_t* table = entries(group, sequence);
  const std::uint32_t length = sequences_[sequence].length;
  if (new_length == length) return {};
  if (length == 0) {
    table[0] = take(group);
    if (table[0] == kNoPage) return std::unexpected(out_of_memory(sequence));
    states.live = true;
  }
  ORRERY_CHECK(states.live);
  const std::uint32_t first = length == 0 ? 0 : last_page(length), last = last_page(new_length);
  if (first == last) return {};

  const States before = states;
  for (std::uint32_t i = first; i < last; ++i) states.keep(i, max_snapshots(group.shape));
  for (std::uint32_t i = 0; i < before.n_kept; ++i) {
    std::int32_t& page = table[before.kept[i]];
    if (states.keeps(before.kept[i])) continue;
    release(group, page);
    page = kNoPage;
  }
  States got = states;
  got.n_kept = 0;
  for (std::uint32_t i = 0; i < states.n_kept && states.kept[i] < first; ++i) {
    got.kept[got.n_kept++] = states.kept[i];
  }
  for (std::uint32_t i = first; i < last; ++i) {
    const std::int32_t next = states.keeps(i) ? take(group) : kNoPage;
    // Without memory for a snapshot there is none.
    if (next != kNoPage) got.kept[got.n_kept++] = i;
    table[i + 1] = next != kNoPage ? next : table[i];
  }
  states = got;
  return {};
}

// What was begun behind `length` and not run; the page of the last position is as it was.
void KvPages::take_back_state(Group& group, SequenceId sequence, std::uint32_t length) {
  States& states = group.states[static_cast<std::size_t>(sequence)];
  std::int32_t* table = entries(group, sequence);
  if (sequences_[sequence].length == 0) return;
  const std::uint32_t kept_pages = length == 0 ? 0 : last_page(length) + 1;
  for (std::uint32_t i = last_page(sequences_[sequence].length) + 1; i > kept_pages; --i) {
    const bool is_own = i == 1 || table[i - 1] != table[i - 2];
    if (is_own && table[i - 1] != kNoPage) release(group, table[i - 1]);
    table[i - 1] = kNoPage;
  }
  while (states.n_kept > 0 && states.kept[states.n_kept - 1] + 1 >= kept_pages) --states.n_kept;
  if (length == 0) states.live = false;
}

void KvPages::truncate_state(Group& group, SequenceId sequence, std::uint32_t new_length) {
  const std::uint32_t length = sequences_[sequence].length;
  if (new_length == length) return;
  States& states = group.states[static_cast<std::size_t>(sequence)];
  std::int32_t* table = entries(group, sequence);
  const auto drop = [&](std::uint32_t index) {
    release(group, table[index]);
    table[index] = kNoPage;
  };
  if (states.live) drop(last_page(length));
  while (states.n_kept > 0) {
    const std::uint32_t index = states.kept[states.n_kept - 1];
    if ((index + 1) * plan::kPageTokens <= new_length) break;
    drop(index);
    --states.n_kept;
  }
  std::fill(table + ceil_div(new_length, plan::kPageTokens), table + last_page(length) + 1,
            kNoPage);
  // A snapshot of just this length is the sequence's end again.
  states.live = new_length > 0 && states.boundary(new_length) == new_length;
  if (states.live) --states.n_kept;
}

// Page `index` of a sequence, where it is complete, to an empty one. False without memory.
bool KvPages::copy_state(Group& group, SequenceId from, SequenceId to, std::uint32_t index) {
  const std::int32_t page = take(group);
  if (page == kNoPage) return false;
  const std::uint64_t bytes = group.shape.page_bytes();
  std::memcpy(group.base() + static_cast<std::uint64_t>(page) * bytes,
              group.base() + static_cast<std::uint64_t>(entries(group, from)[index]) * bytes,
              bytes);
  entries(group, to)[index] = page;
  group.states[static_cast<std::size_t>(to)].live = true;
  return true;
}

}  // namespace orrery::engine
