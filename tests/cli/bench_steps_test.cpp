// The arithmetic of the step tables, on a program whose times are made up.
#include "cli/bench_steps.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernels/dispatch.hpp"

namespace orrery::cli {
namespace {

// A plan of two equal products, a norm and a tap.
plan::Plan two_products() {
  plan::Plan plan;
  plan.weights = {{"blk.0.attn_q.weight", DType::f32, 10, 10, 0},
                  {"blk.1.attn_q.weight", DType::f32, 10, 10, 0}};
  plan.buffers = {{"x", plan::kTokens, 10}, {"q", plan::kTokens, 10}};
  for (plan::WeightId weight = 0; weight < 2; ++weight) {
    plan::Step step;
    step.op = plan::Op::matmul;
    step.in[0] = 0;
    step.out[0] = 1;
    step.w[0] = weight;
    plan.steps.push_back(step);
  }
  plan::Step norm;
  norm.op = plan::Op::norm;
  norm.in[0] = norm.out[0] = 0;
  plan.steps.push_back(norm);
  plan.steps.push_back({});  // a tap
  return plan;
}

class FakeProgram : public backend::Program {
 public:
  Status run(const backend::Batch&, std::uint32_t, std::uint32_t) override { return {}; }
  std::uint32_t n_steps() const override { return 4; }
  const float* result() const override { return nullptr; }
  std::vector<float> download(plan::BufferId, std::int64_t) const override { return {}; }
  std::uint64_t scratch_bytes() const override { return 0; }
  std::string kernel_name(std::uint32_t) const override { return ""; }
  void set_profile(bool on) override { profile = on; }
  std::vector<backend::StepTime> take_step_times() override {
    return {{2e-6, 1e-6}, {2e-6, 0}, {1e-6, 0}, {7e-6, 0}};
  }
  bool profile = false;
};

Roofline roofs() {
  Roofline roofline;
  roofline.plain_read = 1e9;
  roofline.prefetched_read = 2e9;
  roofline.f32 = 1e8;
  return roofline;
}

TEST(StepSampler, AddsUpEqualStepsAndTheRest) {
  const plan::Plan plan = two_products();
  FakeProgram program;
  StepTable table;
  {
    StepSampler sampler(plan, program);
    EXPECT_TRUE(program.profile);
    for (int i = 0; i < 3; ++i) {
      sampler.begin();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      sampler.end({{.tokens = 1}});
    }
    table = sampler.table(roofs());
  }
  EXPECT_FALSE(program.profile);
  ASSERT_EQ(table.rows.size(), 2U);  // the tap is none
  const StepRow& row = table.rows[0];
  EXPECT_EQ(row.name, "attn_q");
  EXPECT_EQ(row.runs, 2);
  EXPECT_NEAR(row.seconds, 4e-6, 1e-12);
  EXPECT_NEAR(row.waiting, 1e-6, 1e-12);
  EXPECT_NEAR(row.cost.bytes, 800, 1e-9);
  EXPECT_NEAR(row.cost.operations, 400, 1e-9);
  // 400 operations take 4 us at 1e8 a second, 800 bytes 0.4 us at the better of the two reads.
  EXPECT_STREQ(row.roof.roof, "multiply");
  EXPECT_NEAR(row.roof.fraction, 1.0, 1e-9);
  EXPECT_EQ(table.rows[1].name, "norm");
  EXPECT_EQ(table.rows[1].roof.fraction, 0);
  EXPECT_NEAR(table.barriers, 1e-6, 1e-12);
  EXPECT_GE(table.seconds, 2e-3);
  double sum = table.barriers + table.bookkeeping;
  for (const StepRow& each : table.rows) sum += each.seconds;
  EXPECT_NEAR(sum, table.seconds, 1e-9);
  EXPECT_GT(table.overhead_fraction, 0.99);  // 5 us of 2 ms are work
  EXPECT_GE(table.samples, 1U);
  EXPECT_LE(table.kept, table.samples);
}

TEST(StepSampler, TextAndJsonCarryTheSame) {
  const plan::Plan plan = two_products();
  FakeProgram program;
  StepSampler sampler(plan, program);
  sampler.begin();
  sampler.end({{.tokens = 1}});
  const StepTable table = sampler.table(roofs());
  const std::string text = to_text(table, "a token");
  for (const char* expected : {"attn_q", "100% multiply", "barriers and waiting", "bookkeeping"}) {
    EXPECT_NE(text.find(expected), std::string::npos) << text;
  }
  const nlohmann::ordered_json json = to_json(table);
  EXPECT_EQ(json["rows"][0]["step"], "attn_q");
  EXPECT_EQ(json["rows"][0]["roof"], "multiply");
  EXPECT_EQ(json["samples"], 1);
  EXPECT_NE(to_text(roofs()).find("bf16 tiles none"), std::string::npos);
}

TEST(StepSampler, WithoutSamplesThereIsAnEmptyTable) {
  const plan::Plan plan = two_products();
  FakeProgram program;
  EXPECT_TRUE(StepSampler(plan, program).table(roofs()).rows.empty());
}

TEST(Roofline, TheNearerRoofCounts) {
  Roofline roofline = roofs();
  const plan::StepCost cost{2e9, 1e7};  // 1 s of reads, 0.1 s of products
  const RoofFraction read = roof_fraction(roofline, cost, plan::NumberClass::f32, 2.0);
  EXPECT_STREQ(read.roof, "read");
  EXPECT_DOUBLE_EQ(read.fraction, 0.5);
  EXPECT_EQ(roofline.multiply(plan::NumberClass::b16), 1e8);
  roofline.bf16 = 2e8;
  EXPECT_EQ(roofline.multiply(plan::NumberClass::b16), 2e8);
  roofline.tile = 3e8;
  EXPECT_EQ(roofline.multiply(plan::NumberClass::b16), 3e8);
}

TEST(Roofline, MeasuresWhatTheKernelsHave) {
  const std::vector<std::byte> bytes(3 << 20, std::byte{1});
  const kernels::KernelSet set = *kernels::choose_kernels("");
  const kernels::PeakKernels& peaks = kernels::peak_kernels(set);
  Roofline roofline = measure_reads({std::span(bytes)}, 2, peaks);
  EXPECT_GT(roofline.plain_read, 0);
  EXPECT_GT(roofline.prefetched_read, 0);
  measure_products(roofline, 2, peaks);
  EXPECT_GT(roofline.f32, 0);
  EXPECT_GT(roofline.i8, 0);
  EXPECT_EQ(roofline.tile > 0, peaks.multiply_tile != nullptr);
}

}  // namespace
}  // namespace orrery::cli
