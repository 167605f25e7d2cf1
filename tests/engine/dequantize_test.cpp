#include "engine/dequantize.hpp"

#include <gtest/gtest.h>

#include "engine/session.hpp"
#include "engine/tiny_executor.hpp"

namespace orrery::engine {
namespace {

constexpr plan::Capacity kDecode{8, 8, 8};
constexpr plan::Capacity kPrefill{32, 1, 4};
constexpr KvOptions kCache{.sequences = 1, .context = 128, .slice = 0, .budget_bytes = 1U << 24};

TEST(Dequantize, StepsAreF32AndReadWhatWasQuantized) {
  TinyModel model({.type = DType::q4_1}, true);
  const plan::Plan before = model.record(plan::Phase::decode, kDecode).plan;
  const plan::Plan after = widen_steps(before);
  std::size_t quantized = 0;
  for (const plan::Step& step : before.steps) quantized += step.op == plan::Op::quantize_rows;
  EXPECT_GT(quantized, 0U);
  EXPECT_EQ(after.steps.size(), before.steps.size() - quantized);
  for (const plan::Step& step : after.steps) {
    EXPECT_EQ(step.number_class, plan::NumberClass::f32);
    EXPECT_NE(step.op, plan::Op::quantize_rows);
    for (const plan::BufferId in : step.in) {
      EXPECT_TRUE(in == plan::kNone || after.buffers[in].form == plan::Form::f32);
    }
  }
}

TEST(Dequantize, EqualsTheReference) {
  const auto cpu = *backend::make_cpu_backend({1, ""});
  const auto reference = backend::make_reference_backend();
  for (const DType type : {DType::q4_1, DType::q8_0, DType::q6_k}) {
    TinyModel model({.type = type, .window = 50}, true);
    Dequantized dequantized;
    auto decode = dequantized.widen(model.record(plan::Phase::decode, kDecode));
    auto prefill = dequantized.widen(model.record(plan::Phase::prefill, kPrefill));
    ASSERT_TRUE(decode.has_value() && prefill.has_value());
    EXPECT_EQ(decode->weights, prefill->weights);  // decoded once
    EXPECT_GT(dequantized.bytes(), 0U);
    std::shared_ptr<Executor> fast =
        *Executor::create(std::move(*decode), std::move(*prefill), *cpu, kCache);
    const auto a = *Session::open(fast);
    const auto b = *Session::open(model.make(*reference, 128, 1, 32));
    std::vector<text::TokenId> tokens;
    for (int i = 0; i < 90; ++i) {
      tokens.push_back(i * i % 97);
      if (i % 40 != 39 && i < 85) continue;
      const auto x = a->evaluate(tokens);
      const auto y = b->evaluate(tokens);
      ASSERT_TRUE(x.has_value() && y.has_value());
      for (std::size_t v = 0; v < x->logits.size(); ++v) {
        ASSERT_NEAR(x->logits[v], y->logits[v], 1e-4 * (1 + std::abs(y->logits[v])));
      }
    }
  }
}

}  // namespace
}  // namespace orrery::engine
