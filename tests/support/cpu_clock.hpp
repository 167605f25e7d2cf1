// Time limits of tests that hold on a busy machine and under sanitizers.
#pragma once

#include <ctime>

namespace orrery::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kSlowdown = 10;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr double kSlowdown = 10;
#else
inline constexpr double kSlowdown = 1;
#endif
#else
inline constexpr double kSlowdown = 1;
#endif

// Processor time since its construction, as an unsanitized build would need it.
class CpuClock {
 public:
  double milliseconds() const {
    return 1000.0 * static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC / kSlowdown;
  }

 private:
  std::clock_t start_ = std::clock();
};

}  // namespace orrery::test
