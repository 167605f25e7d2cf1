// Bytes and operations of steps against counts by hand.
#include "plan/cost.hpp"

#include <gtest/gtest.h>

#include "plan/passes.hpp"
#include "plan/sample_plan.hpp"

namespace orrery::plan {
namespace {

Plan fused(Phase phase) {
  Plan plan = sample_plan({.phase = phase});
  plan.groups[0].v_type = DType::f32;
  return fuse(std::move(plan), [](const Plan&, const Step&) { return true; });
}

const Step& find(const Plan& plan, const std::string& label) {
  for (const Step& step : plan.steps) {
    if (step_label(plan, step) == label) return step;
  }
  ADD_FAILURE() << label;
  return plan.steps[0];
}

TEST(Cost, LabelsAreSharedByLayersAndNameTheWeights) {
  const Plan plan = fused(Phase::decode);
  std::vector<std::string> labels;
  for (const Step& step : plan.steps) {
    if (step.layer <= 0) labels.push_back(step_label(plan, step));
  }
  const std::vector<std::string> expected = {"embed",         "norm+quantize",        "attn_q/k/v",
                                             "rope_kv_write", "attention+quantize",   "attn_output",
                                             "norm+quantize", "ffn_gate/up+quantize", "ffn_down",
                                             "select_rows",   "norm+quantize",        "head"};
  EXPECT_EQ(labels, expected);
}

TEST(Cost, ProductsReadTheirWeightsOnceWhateverTheRows) {
  const Plan plan = fused(Phase::decode);
  const Step& step = find(plan, "attn_q/k/v");
  const double bytes = 2304 + 1152 + 1152;  // Q4_0: 18 bytes for each 32 of 64 x (64 + 32 + 32)
  const StepCost one = step_cost(plan, step, {.position = 5});
  EXPECT_EQ(one.bytes, bytes);
  EXPECT_EQ(one.operations, 2 * 64 * (64 + 32 + 32));
  const StepCost three = step_cost(plan, step, {.sequences = 3, .outputs = 3, .position = 5});
  EXPECT_EQ(three.bytes, bytes);
  EXPECT_EQ(three.operations, 3 * one.operations);
}

TEST(Cost, TheHeadIsForOutputRows) {
  const Plan plan = fused(Phase::prefill);
  const Step& head = find(plan, "head");
  EXPECT_EQ(step_cost(plan, head, {.tokens = 8, .outputs = 1}).operations, 2 * 64 * 256);
  EXPECT_EQ(step_cost(plan, head, {.tokens = 8, .outputs = 0}).bytes, 0);
}

TEST(Cost, AttentionReadsWhatIsSeen) {
  const Plan plan = fused(Phase::prefill);
  Step step = find(plan, "attention+bf16");
  const double token = 2 * (16 * 2 + 16 * 4);  // 2 kv heads: K in f16, V in f32
  const StepCost decode = step_cost(plan, step, {.sequences = 2, .position = 99});
  EXPECT_EQ(decode.bytes, 2 * 100 * token);
  EXPECT_EQ(decode.operations, 2.0 * 2 * 100 * 4 * 32);
  const StepCost prompt = step_cost(plan, step, {.tokens = 3, .position = 10});
  EXPECT_EQ(prompt.bytes, 13 * token);
  EXPECT_EQ(prompt.operations, 2.0 * (11 + 12 + 13) * 4 * 32);
  step.window = 8;
  const StepCost window = step_cost(plan, step, {.tokens = 3, .position = 10});
  EXPECT_EQ(window.bytes, 10 * token);  // positions 3 to 12
  EXPECT_EQ(window.operations, 2.0 * 3 * 8 * 4 * 32);
}

TEST(Cost, WhatIsGatheredAndWrittenCountsRows) {
  const Plan plan = fused(Phase::prefill);
  EXPECT_EQ(step_cost(plan, find(plan, "embed"), {.tokens = 5}).bytes, 5 * 36);
  EXPECT_EQ(step_cost(plan, find(plan, "rope_kv_write"), {.tokens = 5}).bytes, 5 * 192);
}

}  // namespace
}  // namespace orrery::plan
