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

// A router of 8 experts for 2, each of 64 x 32 Q4_0.
Plan with_experts() {
  Builder b("moe", Phase::decode, {8, 8, 8}, false);
  const BufferId x = b.embed(b.weight({"embed", DType::f32, 9, 64}), kNone, 1.0F);
  MatmulOptions as_decode;
  as_decode.as_decode = true;
  const BufferId logits = b.matmul("r", x, b.weight({"router", DType::f32, 8, 64}), as_decode);
  const auto stack = [&](const char* name, std::uint32_t rows, std::uint32_t cols) {
    return b.weight(
        {.tensor = name, .dtype = DType::q4_0, .rows = rows, .cols = cols, .experts = 8});
  };
  ExpertOptions options;
  options.gate = stack("blk.0.ffn_gate_exps.weight", 32, 64);
  options.up = stack("blk.0.ffn_up_exps.weight", 32, 64);
  options.down = stack("blk.0.ffn_down_exps.weight", 64, 32);
  b.experts("moe", x, b.moe_route(logits, {.used = 2}), options);
  return b.finish();
}

TEST(Cost, OfExpertsOnlyThoseInUseAreRead) {
  const Plan plan = with_experts();
  const Step& glu = find(plan, "ffn_gate_exps/ffn_up_exps+quantize");
  const double expert = 2 * 1152;  // gate and up: 64 x 32 in blocks of 18 bytes
  EXPECT_EQ(step_cost(plan, glu, {}).bytes, 2 * expert);
  EXPECT_EQ(step_cost(plan, glu, {}).operations, 2.0 * 2 * 2 * 64 * 32);
  // Two tokens meet in an expert sometimes.
  EXPECT_NEAR(step_cost(plan, glu, {.sequences = 2}).bytes, (4 - 0.5) * expert, 1e-6);
  EXPECT_NEAR(step_cost(plan, glu, {.tokens = 500}).bytes, 8 * expert, 1e-6);
  EXPECT_EQ(step_cost(plan, glu, {.tokens = 500}).operations, 500 * 2.0 * 2 * 2 * 64 * 32);
  const double router = 8 * 64;
  EXPECT_EQ(weights_read(plan, {}), router * 4 + 2 * (expert + 1152));
  EXPECT_EQ(parameters_read(plan), router + 2 * 3 * 64 * 32);
}

TEST(Cost, WhatIsGatheredAndWrittenCountsRows) {
  const Plan plan = fused(Phase::prefill);
  EXPECT_EQ(step_cost(plan, find(plan, "embed"), {.tokens = 5}).bytes, 5 * 36);
  EXPECT_EQ(step_cost(plan, find(plan, "rope_kv_write"), {.tokens = 5}).bytes, 5 * 192);
}

}  // namespace
}  // namespace orrery::plan
