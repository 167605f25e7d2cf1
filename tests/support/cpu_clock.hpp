// Time limits of tests that hold on a slow or busy machine and under sanitizers.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>
#include <string>

#include "support/sanitized.hpp"

namespace orrery::test {

inline double cpu_milliseconds() {
  return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Of work that costs what reading a bad file costs: comparisons, small allocations, fresh pages.
inline double yardstick_milliseconds() {
  const double start = cpu_milliseconds();
  std::map<std::string, int> names;
  for (int i = 0; i < 20'000; ++i) names.emplace("a name with a number " + std::to_string(i), i);
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  void* pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages != MAP_FAILED) {
    std::memset(pages, static_cast<int>(names.size()), kBytes);
    munmap(pages, kBytes);
  }
  return cpu_milliseconds() - start;
}

// How many times longer than the limits say this build may take on this machine. They hold as they
// are for one that does the yardstick in 12 ms.
inline double slowdown() {
  static const double measured = [] {
    double best = yardstick_milliseconds();
    for (int i = 0; i < 2; ++i) best = std::min(best, yardstick_milliseconds());
    return std::max(1.0, best / 12) * (kSanitized ? 3 : 1);
  }();
  return measured;
}

// Processor time since its construction, as an unsanitized build would need it.
class CpuClock {
 public:
  double milliseconds() const {
    const double elapsed = cpu_milliseconds() - start_;
    return elapsed / slowdown();
  }

 private:
  double start_ = cpu_milliseconds();
};

}  // namespace orrery::test
