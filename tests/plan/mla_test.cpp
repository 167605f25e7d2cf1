// The steps of latent attention: absorbed in decode, expanded in prefill, and what they cost.
#include <gtest/gtest.h>

#include <vector>

#include "plan/cost.hpp"
#include "plan/passes.hpp"
#include "support/tiny_mla.hpp"

namespace orrery::plan {
namespace {

using test::TinyMla;

constexpr Capacity kCapacity{64, 1, 1};

TinyMla quantized(LatentWeights weights) {
  TinyMla model;
  model.weights = weights;
  model.keys = model.values = DType::q8_0;
  return model;
}

// The steps of the first layer's attention.
std::vector<Step> latent_steps(const Plan& plan) {
  std::vector<Step> steps;
  for (const Step& step : plan.steps) {
    if (step.layer == 0 && step.group != kNone) steps.push_back(step);
  }
  return steps;
}

TEST(LatentSteps, DecodeRunsOverTheCacheAsItIs) {
  const TinyMla model = quantized(LatentWeights::split);
  const auto steps = latent_steps(model.record(Phase::decode, kCapacity, false));
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].op, Op::mla_write);
  EXPECT_EQ(steps[1].op, Op::attention);
  EXPECT_EQ(steps[2].op, Op::mla_values);
  EXPECT_EQ(steps[1].kv_heads, 1);
  EXPECT_EQ(steps[1].k_dim, TinyMla::kRank + TinyMla::kRope);
  EXPECT_EQ(steps[1].v_dim, TinyMla::kRank);
}

TEST(LatentSteps, SummedRowsAreFloatProductsWhateverTheirType) {
  for (const LatentWeights weights : {LatentWeights::joint, LatentWeights::split}) {
    const auto steps = latent_steps(quantized(weights).record(Phase::decode, kCapacity, false));
    EXPECT_EQ(steps[0].number_class,
              weights == LatentWeights::joint ? NumberClass::f32 : NumberClass::i8);
    EXPECT_EQ(steps[1].number_class, NumberClass::f32);
    EXPECT_EQ(steps[2].number_class, NumberClass::i8);
  }
}

TEST(LatentSteps, PrefillExpands) {
  const TinyMla model = quantized(LatentWeights::joint);
  const auto steps = latent_steps(model.record(Phase::prefill, kCapacity, false));
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].op, Op::mla_write);
  EXPECT_EQ(steps[0].w[0], kNone);
  EXPECT_EQ(steps[1].op, Op::mla_attention);
  EXPECT_EQ(steps[1].number_class, NumberClass::b16);
  EXPECT_EQ(latent_steps(model.record(Phase::prefill, kCapacity, true)),
            latent_steps(model.record(Phase::decode, kCapacity, false)));
}

TEST(LatentSteps, TheOutputBecomesAnOperandInPlace) {
  const Plan plan = fuse(quantized(LatentWeights::split).record(Phase::decode, kCapacity, false),
                         [](const Plan&, const Step&) { return true; });
  const auto steps = latent_steps(plan);
  EXPECT_EQ(plan.buffers[static_cast<std::size_t>(steps[2].out[0])].form, Form::q8);
  EXPECT_NE(to_text(plan).find("latent=split head=64+32/32"), std::string::npos);
}

TEST(LatentSteps, Cost) {
  const double heads = 3, rank = TinyMla::kRank, rope = TinyMla::kRope, value = TinyMla::kValue;
  const double nope = 64, row = (rank + rope) * 4;
  for (const LatentWeights weights : {LatentWeights::joint, LatentWeights::split}) {
    const TinyMla model = quantized(weights);
    const Plan decode = model.record(Phase::decode, kCapacity, false);
    const auto steps = latent_steps(decode);
    const Work token{.tokens = 1, .sequences = 1, .outputs = 1, .position = 99};
    const StepCost write = step_cost(decode, steps[0], token);
    EXPECT_EQ(write.operations, 2 * heads * rank * nope);
    EXPECT_NEAR(write.bytes, heads * rank * nope * 34 / 32 + row + rank * 4, rank * 4);
    const StepCost attention = step_cost(decode, steps[1], token);
    EXPECT_EQ(attention.operations, 2 * 100 * heads * (2 * rank + rope));
    EXPECT_EQ(attention.bytes, 100 * row);  // once for all heads
    const StepCost values = step_cost(decode, steps[2], token);
    EXPECT_EQ(values.operations, 2 * heads * rank * value);
    EXPECT_EQ(values.bytes, heads * rank * value * 34 / 32);

    const Plan prefill = model.record(Phase::prefill, kCapacity, false);
    const Work prompt{.tokens = 10, .sequences = 1, .outputs = 1, .position = 90};
    const StepCost all = step_cost(prefill, latent_steps(prefill)[1], prompt);
    const double pairs = 91 + 92 + 93 + 94 + 95 + 96 + 97 + 98 + 99 + 100;
    EXPECT_EQ(all.operations,
              2 * heads * pairs * (nope + rope + value) + 2 * heads * 100 * rank * (nope + value));
    EXPECT_EQ(all.bytes, 100 * row + heads * rank * (nope + value) * 34 / 32);
  }
}

}  // namespace
}  // namespace orrery::plan
