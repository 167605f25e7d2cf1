// What a token of a prompt costs, as measured. Attention reads all that lies before a token, so the
// cost is kept for each doubling of the depth.
#pragma once

#include <array>
#include <cstdint>

namespace orrery::engine {

class PrefillPace {
 public:
  // Of a slice behind `depth` tokens.
  void measure(std::uint32_t depth, double token_seconds);
  // The measure of the nearest depth that has one, shallower ones first; 0: nothing was measured.
  double token_seconds(std::uint32_t depth) const;

 private:
  static constexpr std::uint32_t kFirstDepth = 512;
  static std::size_t step_of(std::uint32_t depth);

  // Depths below kFirstDepth, and from there on in steps of a factor of two.
  std::array<double, 24> steps_{};
};

}  // namespace orrery::engine
