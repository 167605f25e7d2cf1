// Addresses without memory: one large range that is reserved once and handed out in spans, each
// with inaccessible pages on both sides.
//
// Where addresses are limited (ulimit -v), or the range is used up, a span gets a range of its own
// size instead, which goes back with it. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>

#include "memory/system_calls.hpp"

namespace orrery::memory {

inline constexpr std::uint64_t kSmallPage = 4096;
inline constexpr std::uint64_t kHugePage = 2ULL << 20;

class AddressRanges {
 public:
  // `range`: bytes to reserve at the first take().
  AddressRanges(SystemCalls& calls, std::uint64_t range) : calls_(calls), range_bytes_(range) {}
  AddressRanges(const AddressRanges&) = delete;
  AddressRanges& operator=(const AddressRanges&) = delete;
  ~AddressRanges();

  // `bytes`, a multiple of the small page, at a multiple of `alignment`; null when refused. The
  // last page of a span is its guard: leave it as it is.
  std::byte* take(std::uint64_t bytes, std::uint64_t alignment);
  // What is mapped in the span goes.
  void give_back(std::byte* start, std::uint64_t bytes);
  std::uint64_t reserved() const { return reserved_; }

 private:
  struct Range {
    std::byte* start = nullptr;
    std::uint64_t bytes = 0;
    bool is_own = false;                            // of one span
    std::map<std::uint64_t, std::uint64_t> free{};  // first address to the one behind the last
  };

  Range* reserve(std::uint64_t bytes, bool is_own);
  void merge_free(std::list<Range>::iterator range, std::uint64_t begin, std::uint64_t end);

  SystemCalls& calls_;
  std::uint64_t range_bytes_;
  std::uint64_t reserved_ = 0;
  std::list<Range> ranges_;
};

}  // namespace orrery::memory
