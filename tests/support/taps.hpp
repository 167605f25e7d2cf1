// Layer taps: the rows that a forward pass names (embed, attn_residual, ffn_residual, final_norm),
// on two backends. The first tap out of bound names the layer that went wrong.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/plan_runner.hpp"

namespace orrery::testing {

struct Tap {
  std::int16_t layer = -1;
  std::string name;
  std::vector<float> rows;  // (n, cols)
};

inline std::vector<Tap> read_taps(const PlanRunner& runner, plan::Phase phase, std::int64_t n) {
  std::vector<Tap> taps;
  const plan::Plan& plan = runner.plan(phase);
  for (const plan::Step& step : plan.steps) {
    if (step.op != plan::Op::tap) continue;
    const plan::BufferId id = step.in[0];
    taps.push_back({step.layer, plan.buffers[id].name, runner.program(phase).download(id, n)});
  }
  return taps;
}

// Runs `ids` on both and compares every tap: |a - b| <= bound (1 + max |b|).
inline void expect_taps_equal(const model::LoadedModel& model, backend::Backend& tested,
                              backend::Backend& reference, RunnerOptions options,
                              const std::vector<std::int32_t>& ids, double bound) {
  options.taps = true;
  const auto a = PlanRunner::make(model, tested, options);
  const auto b = PlanRunner::make(model, reference, options);
  ASSERT_TRUE(a) << a.error().message;
  ASSERT_TRUE(b) << b.error().message;
  ASSERT_LE(ids.size(), options.rows);
  for (const plan::Phase phase : {plan::Phase::prefill, plan::Phase::decode}) {
    (*a)->restart();
    (*b)->restart();
    ASSERT_TRUE((*a)->feed(ids, phase));
    ASSERT_TRUE((*b)->feed(ids, phase));
    const auto n = static_cast<std::int64_t>(ids.size());
    const std::vector<Tap> got = read_taps(**a, phase, n), want = read_taps(**b, phase, n);
    ASSERT_EQ(got.size(), want.size());
    ASSERT_GE(got.size(), 2U + model.hparams().n_layers);
    for (std::size_t t = 0; t < got.size(); ++t) {
      double worst = 0.0, top = 0.0;
      for (std::size_t i = 0; i < want[t].rows.size(); ++i) {
        const double difference = std::abs(double{got[t].rows[i]} - want[t].rows[i]);
        worst = std::max(worst, std::isfinite(difference) ? difference : HUGE_VAL);
        top = std::max(top, std::abs(double{want[t].rows[i]}));
      }
      ASSERT_LE(worst, bound * (1.0 + top))
          << "tap " << want[t].name << " of layer " << want[t].layer;
    }
  }
}

}  // namespace orrery::testing
