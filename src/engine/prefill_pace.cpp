#include "engine/prefill_pace.hpp"

#include <algorithm>
#include <bit>

namespace orrery::engine {
namespace {

constexpr double kNewest = 0.25;  // weight of the newest measurement in a moving average

}  // namespace

std::size_t PrefillPace::step_of(std::uint32_t depth) {
  return static_cast<std::size_t>(std::bit_width(depth / kFirstDepth));
}

void PrefillPace::measure(std::uint32_t depth, double token_seconds) {
  double& mean = steps_[step_of(depth)];
  if (mean == 0) {
    mean = token_seconds;
  } else {
    // A single slow slice is no measure of the next ones.
    mean += kNewest * (std::min(token_seconds, 2 * mean) - mean);
  }
}

double PrefillPace::token_seconds(std::uint32_t depth) const {
  const std::size_t step = step_of(depth);
  for (std::size_t s = step + 1; s-- > 0;) {
    if (steps_[s] > 0) return steps_[s];
  }
  for (std::size_t s = step + 1; s < steps_.size(); ++s) {
    if (steps_[s] > 0) return steps_[s];
  }
  return 0;
}

}  // namespace orrery::engine
