// A context that rolls (StreamingLLM, Xiao et al. 2023, arXiv:2309.17453): the first tokens stay,
// on which attention rests whatever they say (sinks), pages behind them are dropped, and all that
// comes later moves up. Nothing is computed again: rotary keys are turned by the distance they
// moved, so that positions stay those of the cache, never above the context. A key moves once
// before it is dropped where a step is half of the context, so it is rounded once more than by its
// first writing.
#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "engine/kv_pages.hpp"
#include "plan/plan.hpp"

namespace orrery::engine {

// Tokens at the front that stay: `keep` in whole pages, one at least.
std::uint32_t roll_sinks(std::uint32_t keep);
// Tokens that a full context drops at once: half of what is behind the sinks, in whole pages; fewer
// where a window must find all its pages behind the sinks. 0: there is no room to roll.
std::uint32_t roll_step(const plan::Plan& decode, std::uint32_t context, std::uint32_t keep);
// E_UNSUPPORTED where a position is more than a rotation of keys (learned positions, states), or
// the keys are latents; E_CONTEXT where roll_step() is 0.
Status check_rolls(const plan::Plan& decode, std::uint32_t context, std::uint32_t keep);
// Turns the keys in a sequence's pages from entry `first` on by `distance` positions.
void rotate_keys(const plan::Plan& decode, const KvPages& kv, SequenceId sequence,
                 std::uint32_t first, std::int64_t distance);

}  // namespace orrery::engine
