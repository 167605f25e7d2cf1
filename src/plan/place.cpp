#include <algorithm>
#include <numeric>
#include <vector>

#include "base/checked.hpp"
#include "plan/passes.hpp"

namespace orrery::plan {
namespace {

// A buffer holds its value from the step that writes it to the last one that reads it.
struct LiveRange {
  std::size_t first = SIZE_MAX, last = 0;  // step indices, inclusive; first > last: never used
  std::uint64_t bytes = 0;
  bool used() const { return first <= last; }
  bool meets(const LiveRange& other) const { return first <= other.last && other.first <= last; }
};

std::vector<LiveRange> find_live_ranges(const Plan& plan) {
  std::vector<LiveRange> ranges(plan.buffers.size());
  const auto touch = [&](BufferId id, std::size_t step) {
    if (id == kNone) return;
    ranges[id].first = std::min(ranges[id].first, step);
    ranges[id].last = std::max(ranges[id].last, step);
  };
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (const BufferId id : plan.steps[i].in) touch(id, i);
    for (const BufferId id : plan.steps[i].out) touch(id, i);
    touch(plan.steps[i].residual, i);
  }
  // A run of one row lets threads go some steps ahead of each other (backend/cpu/solo.hpp).
  constexpr std::size_t kLead = 2;
  if (plan.phase == Phase::decode) {
    for (LiveRange& range : ranges) range.last += range.used() ? kLead : 0;
  }
  touch(plan.result, plan.steps.size());  // read after the run
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Capacity& capacity = plan.capacity;
    const std::int64_t rows =
        plan.buffers[i].rows.at(capacity.tokens, capacity.sequences, capacity.outputs);
    ranges[i].bytes = buffer_bytes(plan.buffers[i], static_cast<std::uint64_t>(rows));
  }
  return ranges;
}

// The lowest offset at which `bytes` fit between the taken intervals, given in order of their
// begin.
struct Interval {
  std::uint64_t begin, end;
};
std::uint64_t first_fit(const std::vector<Interval>& taken, std::uint64_t bytes) {
  std::uint64_t offset = 0;
  for (const Interval& interval : taken) {
    if (offset + bytes <= interval.begin) break;
    offset = std::max(offset, interval.end);
  }
  return offset;
}

}  // namespace

Plan place(Plan plan, bool keep_all) {
  const std::vector<LiveRange> ranges = find_live_ranges(plan);
  // Large buffers first: small ones fill the gaps between them.
  std::vector<std::size_t> order(plan.buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return ranges[a].bytes != ranges[b].bytes ? ranges[a].bytes > ranges[b].bytes : a < b;
  });

  std::vector<std::size_t> placed;  // in order of offset
  plan.scratch_bytes = 0;
  for (const std::size_t i : order) {
    plan.buffers[i].offset = 0;
    if (!ranges[i].used()) continue;
    std::vector<Interval> taken;
    for (const std::size_t other : placed) {
      if (!keep_all && !ranges[i].meets(ranges[other])) continue;
      const std::uint64_t begin = plan.buffers[other].offset;
      taken.push_back({begin, begin + ranges[other].bytes});
    }
    const std::uint64_t offset = first_fit(taken, ranges[i].bytes);
    plan.buffers[i].offset = offset;
    plan.scratch_bytes = std::max(plan.scratch_bytes, offset + ranges[i].bytes);
    const auto at = std::ranges::upper_bound(
        placed, offset, {}, [&](std::size_t other) { return plan.buffers[other].offset; });
    placed.insert(at, i);
  }
  return plan;
}

}  // namespace orrery::plan
