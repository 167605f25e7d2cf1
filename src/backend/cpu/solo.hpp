// Runs of one row: what every thread computes for itself, so that nobody waits for it.
//
// A norm of one row takes less time than two barriers, and so do the row copies and operand
// roundings beside it. In a run of one row each thread does them all ("alone"), into memory of its
// own; thread 0 writes the plan's buffer itself, which holds the values that later steps share.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace orrery::backend::cpu {

inline constexpr std::uint32_t kShared = UINT32_MAX;

struct SoloSteps {
  std::vector<bool> alone;              // of each step: no barrier after it
  std::vector<bool> merged;             // of each step: the attention step after it does its work
  std::vector<std::uint32_t> own_rows;  // of each buffer: offset in a thread's memory, or kShared
  std::uint64_t own_bytes = 0;          // of a thread
};

SoloSteps solo_steps(const plan::Plan& plan);

}  // namespace orrery::backend::cpu
