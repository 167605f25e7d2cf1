#include "memory/address_ranges.hpp"

#include <sys/mman.h>

#include "base/check.hpp"
#include "base/checked.hpp"

namespace orrery::memory {
namespace {

constexpr int kNothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

std::uint64_t address_of(const std::byte* at) {
  return reinterpret_cast<std::uint64_t>(at);
}

// A span out of the free parts; 0 where none is large enough.
std::uint64_t take_free(std::map<std::uint64_t, std::uint64_t>& free, std::uint64_t bytes,
                        std::uint64_t alignment) {
  for (auto part = free.begin(); part != free.end(); ++part) {
    const auto [begin, end] = *part;
    const std::uint64_t start = align_up(begin, alignment);
    if (start > end || end - start < bytes) continue;
    free.erase(part);
    if (start > begin) free.emplace(begin, start);
    if (start + bytes < end) free.emplace(start + bytes, end);
    return start;
  }
  return 0;
}

}  // namespace

AddressRanges::~AddressRanges() {
  for (const Range& range : ranges_) calls_.unmap(range.start, range.bytes);
}

AddressRanges::Range* AddressRanges::reserve(std::uint64_t bytes, bool is_own) {
  void* start = calls_.map(nullptr, bytes, PROT_NONE, kNothing, -1);
  if (start == MAP_FAILED) return nullptr;
  reserved_ += bytes;
  Range& range = ranges_.emplace_back(Range{static_cast<std::byte*>(start), bytes, is_own});
  // The guard before the first span; every other has that of the span before it.
  range.free.emplace(address_of(range.start) + kSmallPage, address_of(range.start) + bytes);
  return &range;
}

std::byte* AddressRanges::take(std::uint64_t bytes, std::uint64_t alignment) {
  ORRERY_CHECK(bytes > 0 && bytes % kSmallPage == 0);
  for (Range& range : ranges_) {
    const std::uint64_t start = take_free(range.free, bytes, alignment);
    if (start != 0) return reinterpret_cast<std::byte*>(start);
  }
  const CheckedU64 own = checked_add(bytes, alignment + kSmallPage);
  if (!own) return nullptr;
  const bool takes_range =
      ranges_.empty() && *own <= range_bytes_ && calls_.address_limit() == UINT64_MAX;
  Range* range = takes_range ? reserve(range_bytes_, false) : nullptr;
  if (range == nullptr) range = reserve(*own, true);
  if (range == nullptr) return nullptr;
  return reinterpret_cast<std::byte*>(take_free(range->free, bytes, alignment));
}

void AddressRanges::give_back(std::byte* start, std::uint64_t bytes) {
  auto range = ranges_.begin();
  while (start < range->start || start >= range->start + range->bytes) ++range;
  if (range->is_own) {
    calls_.unmap(range->start, range->bytes);
    reserved_ -= range->bytes;
    ranges_.erase(range);
    return;
  }
  // Where even that is refused, the addresses are lost, not handed out with what is in them.
  if (calls_.map(start, bytes, PROT_NONE, kNothing, -1) == MAP_FAILED) {
    calls_.advise(start, bytes, MADV_DONTNEED);
    return;
  }
  merge_free(range, address_of(start), address_of(start) + bytes);
}

void AddressRanges::merge_free(std::list<Range>::iterator range, std::uint64_t begin,
                               std::uint64_t end) {
  auto behind = range->free.lower_bound(begin);
  if (behind != range->free.end() && behind->first == end) {
    end = behind->second;
    behind = range->free.erase(behind);
  }
  if (behind != range->free.begin() && std::prev(behind)->second == begin) {
    std::prev(behind)->second = end;
  } else {
    range->free.emplace(begin, end);
  }
}

}  // namespace orrery::memory
