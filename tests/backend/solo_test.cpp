#include "backend/cpu/solo.hpp"

#include <gtest/gtest.h>

#include "plan/passes.hpp"
#include "support/tiny_llama.hpp"

namespace orrery::backend::cpu {
namespace {

plan::Plan placed(plan::Phase phase, std::uint32_t experts = 0) {
  test::TinyLlama model{.type = DType::q4_1};
  model.mixture = {.experts = experts, .route = {.used = 3}, .shared = true};
  plan::Plan plan = model.record(phase, {8, 8, 8}, true);
  const auto all = [](const plan::Plan&, const plan::Step&) { return true; };
  return plan::place(plan::fuse(plan::drop_taps(std::move(plan)), all), false);
}

TEST(SoloSteps, ALayerHasFiveBarriers) {
  const plan::Plan plan = placed(plan::Phase::decode);
  const SoloSteps solo = solo_steps(plan);
  int barriers = 0;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.steps[s].layer == 1 && !solo.alone[s] && !solo.merged[s]) ++barriers;
  }
  EXPECT_EQ(barriers, 5);
}

// Those of attention and its output, of the router, the shared expert and its gate, of the experts'
// two products; the choice and the sum are done alone.
TEST(SoloSteps, ALayerWithExpertsHasEightBarriers) {
  const plan::Plan plan = placed(plan::Phase::decode, 7);
  const SoloSteps solo = solo_steps(plan);
  int barriers = 0;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const plan::Step& step = plan.steps[s];
    if (step.layer == 1 && !solo.alone[s] && !solo.merged[s]) ++barriers;
    if (step.op == plan::Op::moe_route || step.op == plan::Op::moe_combine) {
      EXPECT_TRUE(solo.alone[s]);
    }
  }
  EXPECT_EQ(barriers, 8);
}

// What a step alone or a merged one leaves for others to read must not be written over before all
// threads have passed a barrier.
TEST(SoloSteps, NothingIsWrittenThatAnotherThreadMayStillRead) {
  for (const auto& [phase, experts] : {std::pair{plan::Phase::decode, 0U},
                                       {plan::Phase::prefill, 0U},
                                       {plan::Phase::decode, 7U}}) {
    const plan::Plan plan = placed(phase, experts);
    const SoloSteps solo = solo_steps(plan);
    const auto begin = [&](plan::BufferId id) { return plan.buffers[std::size_t(id)].offset; };
    const auto end = [&](plan::BufferId id) {
      const plan::Buffer& buffer = plan.buffers[std::size_t(id)];
      const auto rows = static_cast<std::uint64_t>(buffer.rows.at(1, 1, 1));
      return buffer.offset + rows * plan::form_row_bytes(buffer.form, buffer.cols);
    };
    std::size_t first = 0;
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      for (std::size_t before = first; before < s; ++before) {
        for (const plan::BufferId read : plan.steps[before].in) {
          for (const plan::BufferId written : plan.steps[s].out) {
            if (read == plan::kNone || written == plan::kNone) continue;
            EXPECT_TRUE(begin(written) >= end(read) || begin(read) >= end(written))
                << "step " << s << " writes what step " << before << " reads";
          }
        }
      }
      if (!solo.alone[s] && !solo.merged[s]) first = s + 1;
    }
  }
}

}  // namespace
}  // namespace orrery::backend::cpu
