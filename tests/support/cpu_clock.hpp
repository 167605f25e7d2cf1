// Time limits of tests that hold on a busy machine and under sanitizers.
#pragma once

#include <ctime>

#include "support/sanitized.hpp"

namespace orrery::test {

// Sanitizer builds are instrumented and keep unoptimised copies of templates.
inline constexpr double kSlowdown = kSanitized ? 30 : 1;

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
