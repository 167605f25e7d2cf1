// What a run of a plan costs, for those who count run after run: a few sums in place of a walk over
// the steps (cost.hpp).
#pragma once

#include <utility>
#include <vector>

#include "plan/cost.hpp"

namespace orrery::plan {

class RunCosts {
 public:
  explicit RunCosts(const Plan& plan);

  // Everything but attention; `position` does not matter.
  StepCost linear(const Work& work) const;
  // Attention over what is cached. Runs of sequences at different positions: the sum of theirs.
  StepCost attention(const Work& work) const;

 private:
  // fixed + per_token * tokens + per_sequence * sequences
  struct Sum {
    StepCost fixed, per_token, per_sequence;
  };

  Plan plan_;  // for its groups and weights: the steps below are of it
  Sum layers_;
  StepCost head_, per_output_;                    // of a run with outputs
  std::vector<std::pair<Step, double>> experts_;  // equal steps together, and how many
  std::vector<std::pair<Step, double>> attention_;
};

}  // namespace orrery::plan
