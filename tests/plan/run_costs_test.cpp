// Against the walk over all steps.
#include "plan/run_costs.hpp"

#include <gtest/gtest.h>

#include "plan/passes.hpp"
#include "support/tiny_hybrid.hpp"
#include "support/tiny_llama.hpp"
#include "support/tiny_mla.hpp"

namespace orrery::plan {
namespace {

void expect_equal(const Plan& plan) {
  const RunCosts costs(plan);
  for (const std::uint32_t tokens : {1U, 2U, 7U, 300U}) {
    for (const std::uint32_t sequences : {1U, 5U}) {
      for (const std::uint32_t outputs : {0U, 1U, 5U}) {
        for (const std::uint32_t position : {0U, 3U, 1000U}) {
          const Work work{tokens, sequences, outputs, position};
          StepCost expected;
          for (const Step& step : plan.steps) {
            if (step.op == Op::tap) continue;
            const StepCost cost = step_cost(plan, step, work);
            expected.bytes += cost.bytes;
            expected.operations += cost.operations;
          }
          const StepCost linear = costs.linear(work), attention = costs.attention(work);
          EXPECT_NEAR(linear.bytes + attention.bytes, expected.bytes, 1e-9 * expected.bytes);
          EXPECT_NEAR(linear.operations + attention.operations, expected.operations,
                      1e-9 * expected.operations);
        }
      }
    }
  }
}

Plan fused(Plan plan) {
  return fuse(drop_taps(std::move(plan)), [](const Plan&, const Step&) { return true; });
}

TEST(RunCosts, AreThoseOfTheSteps) {
  for (const Phase phase : {Phase::decode, Phase::prefill}) {
    const Capacity capacity{8, 8, 8};
    for (const std::uint32_t window : {0U, 100U}) {
      test::TinyLlama shape;
      shape.window = window;
      expect_equal(fused(shape.record(phase, capacity, false)));
    }
    test::TinyLlama mixture;
    mixture.mixture.experts = 8;
    mixture.mixture.route.used = 2;
    expect_equal(fused(mixture.record(phase, capacity, false)));
    expect_equal(fused(test::TinyMla{}.record(phase, capacity, false)));
    expect_equal(fused(test::TinyHybrid{}.record(phase, capacity, false)));
  }
}

// Rows at their own positions are the sum of their attention.
TEST(RunCosts, AddUpOverPositions) {
  test::TinyLlama shape;
  const RunCosts costs(fused(shape.record(Phase::decode, {8, 8, 8}, false)));
  const StepCost both = costs.attention({.sequences = 2, .position = 9});
  const StepCost one = costs.attention({.position = 4}), other = costs.attention({.position = 14});
  EXPECT_DOUBLE_EQ(one.bytes + other.bytes, both.bytes);
  EXPECT_DOUBLE_EQ(one.operations + other.operations, both.operations);
}

}  // namespace
}  // namespace orrery::plan
