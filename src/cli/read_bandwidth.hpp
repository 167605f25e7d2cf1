// How fast the same bytes can be read at all: the roofline of a decode step, measured in the same
// run.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace orrery::cli {

// Bytes per second of the fastest of a few plain reads of all spans by `threads` threads.
double read_bandwidth(const std::vector<std::span<const std::byte>>& spans, int threads);

}  // namespace orrery::cli
