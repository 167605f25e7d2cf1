// Time: seconds for people, ticks for profiles.
#pragma once

#include <cstdint>

namespace orrery {

// Seconds of a clock that never jumps.
double now_seconds();
// The cheapest counter of the CPU (TSC, CNTVCT).
std::uint64_t clock_ticks();
// Calibrated once against now_seconds().
double ticks_to_seconds(std::uint64_t ticks);

}  // namespace orrery
