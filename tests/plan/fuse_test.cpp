#include <gtest/gtest.h>

#include <algorithm>

#include "plan/passes.hpp"
#include "plan/sample_plan.hpp"
#include "support/golden_text.hpp"

namespace orrery::plan {
namespace {

bool supports_all(const Plan&, const Step&) {
  return true;
}

std::ptrdiff_t count_steps(const Plan& plan, std::int16_t layer) {
  return std::ranges::count(plan.steps, layer, &Step::layer);
}

std::ptrdiff_t count_ops(const Plan& plan, Op op) {
  return std::ranges::count(plan.steps, op, &Step::op);
}

TEST(Fuse, DenseLlamaLayerIsEightSteps) {
  for (const Phase phase : {Phase::decode, Phase::prefill}) {
    const Plan plan = fuse(sample_plan({.phase = phase}), supports_all);
    EXPECT_EQ(count_steps(plan, 0), 8);
    EXPECT_EQ(count_steps(plan, 1), 8);
  }
  const Plan floats = fuse(sample_plan({.matrix = DType::f16, .value = DType::f16}), supports_all);
  EXPECT_EQ(count_steps(floats, 0), 8);
}

TEST(Fuse, GoldenDecode) {
  testing::expect_golden_text("plan_llama_decode.txt",
                              to_text(place(fuse(sample_plan({}), supports_all), false)));
}

TEST(Fuse, GoldenUnlikeClassesAndTaps) {
  const SampleOptions options{.phase = Phase::decode, .value = DType::f16, .taps = true};
  testing::expect_golden_text("plan_llama_mixed.txt",
                              to_text(place(fuse(sample_plan(options), supports_all), false)));
}

TEST(Fuse, KeepsConversionWhereTheBackendCannotFold) {
  const Plan plan = fuse(sample_plan({}), [](const Plan& p, const Step& step) {
    return step.op != Op::norm || p.buffers[step.out[0]].form == Form::f32;
  });
  EXPECT_EQ(count_steps(plan, 0), 10);
  // attn_norm, ffn_norm in two layers and output_norm.
  EXPECT_EQ(count_ops(plan, Op::quantize_rows), 5);
}

// attn_v in f16 needs the f32 rows of attn_norm, so its conversion stays a step.
TEST(Fuse, KeepsRowsThatOthersRead) {
  const Plan plan = fuse(sample_plan({.value = DType::f16}), supports_all);
  EXPECT_EQ(count_ops(plan, Op::quantize_rows), 2);
  EXPECT_EQ(count_steps(plan, 0), 10);
}

TEST(Fuse, TapsKeepTheirRows) {
  Plan plan = sample_plan({});
  const auto norm = std::ranges::find(plan.steps, Op::norm, &Step::op);
  Step tap;
  tap.in[0] = norm->out[0];
  plan.steps.insert(norm + 1, tap);
  EXPECT_EQ(count_steps(fuse(plan, supports_all), 0), 9);
  EXPECT_EQ(count_steps(fuse(drop_taps(plan), supports_all), 0), 8);
}

TEST(Fuse, NamesNoLostBuffer) {
  const Plan plan = fuse(sample_plan({}), supports_all);
  for (const Step& step : plan.steps) {
    for (const BufferId id : step.in) EXPECT_LT(id, static_cast<int>(plan.buffers.size()));
    for (const BufferId id : step.out) EXPECT_LT(id, static_cast<int>(plan.buffers.size()));
  }
  EXPECT_EQ(plan.buffers[plan.result].name, "logits");
}

TEST(Builder, ClassFollowsPhaseAndType) {
  EXPECT_EQ(weight_class(Phase::decode, DType::q4_k, false), NumberClass::i8);
  EXPECT_EQ(weight_class(Phase::decode, DType::bf16, false), NumberClass::f32);
  EXPECT_EQ(weight_class(Phase::prefill, DType::q4_k, false), NumberClass::b16);
  EXPECT_EQ(weight_class(Phase::prefill, DType::q4_k, true), NumberClass::i8);
  EXPECT_EQ(weight_class(Phase::prefill, DType::f32, true), NumberClass::f32);
}

}  // namespace
}  // namespace orrery::plan
