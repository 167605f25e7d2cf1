// How long a model stays in memory after its last answer.
#pragma once

#include <chrono>
#include <string_view>

#include "base/result.hpp"

namespace orrery::server {

using Keep = std::chrono::milliseconds;
inline constexpr Keep kForever = Keep::max();

// "300" and "1.5" (seconds), "90s", "5m", "1h30m", "250ms", in the units of Go's durations (ns, us,
// ms, s, m, h); whatever is negative is for ever, "0" until the answer has ended. E_PARAM for
// anything else, and for more than ten years.
Result<Keep> parse_keep_alive(std::string_view text);
// The same of a number of seconds.
Result<Keep> keep_alive_of(double seconds);

}  // namespace orrery::server
