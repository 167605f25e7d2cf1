#include <gtest/gtest.h>

#include <random>

#include "plan/passes.hpp"
#include "plan/sample_plan.hpp"

namespace orrery::plan {
namespace {

struct Range {
  std::size_t first = SIZE_MAX, last = 0;
};

// Written apart from place(): the first and last step that name a buffer.
Range range_of(const Plan& plan, BufferId id) {
  Range range;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    bool named = step.residual == id;
    for (int k = 0; k < 3; ++k) named = named || step.in[k] == id || step.out[k] == id;
    if (!named) continue;
    if (range.first == SIZE_MAX) range.first = i;
    range.last = i;
  }
  if (plan.result == id) range.last = plan.steps.size();
  return range;
}

void expect_sound(const Plan& plan, bool keep_all) {
  const auto bytes = [&](std::size_t i) {
    const Buffer& buffer = plan.buffers[i];
    const std::int64_t rows =
        buffer.rows.at(plan.capacity.tokens, plan.capacity.sequences, plan.capacity.outputs);
    return buffer_bytes(buffer, static_cast<std::uint64_t>(rows));
  };
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const std::uint64_t begin = plan.buffers[i].offset;
    EXPECT_EQ(begin % 64, 0U);
    EXPECT_LE(begin + bytes(i), plan.scratch_bytes);
    const Range a = range_of(plan, static_cast<BufferId>(i));
    for (std::size_t k = 0; k < i; ++k) {
      const Range b = range_of(plan, static_cast<BufferId>(k));
      if (!keep_all && (a.first > b.last || b.first > a.last)) continue;
      const std::uint64_t other = plan.buffers[k].offset;
      EXPECT_TRUE(begin + bytes(i) <= other || other + bytes(k) <= begin)
          << "buffers " << i << " and " << k << " are live at once and overlap";
    }
  }
}

TEST(Place, LiveBuffersNeverOverlap) {
  for (const bool keep_all : {false, true}) {
    expect_sound(place(sample_plan({}), keep_all), keep_all);
    const Plan fused =
        fuse(sample_plan({.phase = Phase::prefill}), [](const auto&, const auto&) { return true; });
    expect_sound(place(fused, keep_all), keep_all);
  }
}

TEST(Place, ReusesSpace) {
  const Plan reused = place(sample_plan({}), false), kept = place(sample_plan({}), true);
  EXPECT_LT(reused.scratch_bytes * 2, kept.scratch_bytes);
}

// Random plans: every step reads up to three earlier buffers and writes one.
TEST(Place, RandomPlansAreSound) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Plan plan;
    plan.capacity = {static_cast<std::uint32_t>(1 + random() % 40), 2, 3};
    const int n = static_cast<int>(2 + random() % 30);
    for (int i = 0; i < n; ++i) {
      const Extent rows = random() % 2 == 0 ? kTokens : kOutputs;
      const Form form = static_cast<Form>(random() % 3);
      plan.buffers.push_back(
          {"b", rows, 32 * static_cast<std::uint32_t>(1 + random() % 20), form, 0});
      Step step;
      step.op = Op::add;
      if (i > 0) {
        for (BufferId& in : step.in) {
          if (random() % 2 == 0) in = static_cast<BufferId>(random() % static_cast<unsigned>(i));
        }
      }
      step.out[0] = static_cast<BufferId>(i);
      plan.steps.push_back(step);
    }
    plan.result = static_cast<BufferId>(n - 1);
    expect_sound(place(plan, false), false);
  }
}

TEST(Print, CountsWeightBytesOnceWithoutEmbedRows) {
  const Plan plan = sample_plan({});
  // Per layer: q 64, k 32, v 32, o 64 rows of 64, gate and up 128 of 64, down 64 of 128; Q4_0 takes
  // 18 bytes per 32. Norms are 64 floats. The head is the tied embedding, 256 rows of 64.
  const std::uint64_t matrices = (192 * 64 + 256 * 64 + 64 * 128) / 32 * 18;
  EXPECT_EQ(weight_bytes(plan), 2 * (matrices + 2 * 64 * 4) + 64 * 4 + 256 * 64 / 32 * 18);
  EXPECT_EQ(step_weight_bytes(plan, plan.steps.front()), 0U);
  EXPECT_EQ(step_weight_bytes(plan, plan.steps.back()), 256U * 64 / 32 * 18);
}

}  // namespace
}  // namespace orrery::plan
