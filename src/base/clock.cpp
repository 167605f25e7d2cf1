#include "base/clock.hpp"

#include <chrono>

namespace orrery {
namespace {

double measure_seconds_per_tick() {
  const double start = now_seconds();
  const std::uint64_t first = clock_ticks();
  double elapsed = 0;
  while (elapsed < 0.01) elapsed = now_seconds() - start;
  return elapsed / static_cast<double>(clock_ticks() - first);
}

}  // namespace

double now_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::uint64_t clock_ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<std::uint64_t>(now_seconds() * 1e9);
#endif
}

double ticks_to_seconds(std::uint64_t ticks) {
  static const double seconds_per_tick = measure_seconds_per_tick();
  return static_cast<double>(ticks) * seconds_per_tick;
}

}  // namespace orrery
