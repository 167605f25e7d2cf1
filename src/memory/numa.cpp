#include "memory/numa.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace orrery::memory {

std::uint64_t node_mask(std::string_view list) {
  std::uint64_t mask = 0;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    unsigned first = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc()) break;
    unsigned last = first;
    if (read.ptr < end && *read.ptr == '-') {
      read = std::from_chars(read.ptr + 1, end, last);
      if (read.ec != std::errc()) break;
    }
    for (unsigned node = first; node <= std::min(last, 63U); ++node) mask |= 1ULL << node;
    at = read.ptr < end ? read.ptr + 1 : end;  // behind the comma
  }
  return mask;
}

}  // namespace orrery::memory
