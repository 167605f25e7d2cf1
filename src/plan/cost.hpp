// What a step must move and multiply at least: the numbers that a measured time is held against.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.hpp"

namespace orrery::plan {

// One run of a plan: each of `sequences` adds `tokens` tokens from `position` on.
struct Work {
  std::uint32_t tokens = 1, sequences = 1;
  std::uint32_t outputs = 1;  // rows of logits
  std::uint32_t position = 0;
};

struct StepCost {
  double bytes = 0;       // from memory: weights once, cached K and V that are read or written
  double operations = 0;  // of products: two for each multiply-add
};
// Activations are not counted: they stay in the processor's caches.
StepCost step_cost(const Plan& plan, const Step& step, const Work& work);

// Bytes of weights that a run reads, each once (embedding rows are not counted): of a step's
// experts as many as its tokens are expected to use, all experts being alike.
double weights_read(const Plan& plan, const Work& work);
// The same in elements, for one token.
double parameters_read(const Plan& plan);

// What equal steps of all layers have in common: "attn_q/k/v", "ffn_gate/up", "norm+quantize",
// "attention+quantize", "head".
std::string step_label(const Plan& plan, const Step& step);

}  // namespace orrery::plan
