// Latent attention on the CPU backend against the reference, and against itself: instruction sets,
// threads, batches, chunks, phases.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "kernels/dispatch.hpp"
#include "support/sanitized.hpp"
#include "support/tiny_llama.hpp"
#include "support/tiny_mla.hpp"

namespace orrery::backend {
namespace {

using plan::LatentWeights;
using test::Runner;
using test::TinyMla;

constexpr plan::Capacity kCapacity{80, 4, 80};

std::vector<Runner::Row> prompt(int begin, int end, std::int32_t sequence) {
  std::vector<Runner::Row> rows;
  for (int i = begin; i < end; ++i) rows.push_back({sequence, i, (i * 31 + 7 * sequence + 3) % 97});
  return rows;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0, size = 1e-9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return 1e30;
    worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
    size = std::max(size, std::abs(double(b[i])));
  }
  return worst / size;
}

std::unique_ptr<Backend> cpu(int threads, const std::string& isa) {
  auto device = make_cpu_backend({threads, isa});
  EXPECT_TRUE(device);
  return std::move(*device);
}

std::vector<float> run_on(Backend& device, const TinyMla& model, plan::Phase phase,
                          bool deterministic, const std::vector<Runner::Row>& rows) {
  Runner runner(device, model.record(phase, kCapacity, deterministic), 1);
  EXPECT_TRUE(runner);
  return runner ? runner.run(rows) : std::vector<float>{};
}

struct Weights {
  LatentWeights kind;
  DType keys, values;
};

std::vector<Weights> quantized_weights() {
  return {{LatentWeights::joint, DType::q4_k, DType::q4_k},
          {LatentWeights::split, DType::q8_0, DType::q4_k}};
}

std::vector<Weights> float_weights() {
  return {{LatentWeights::joint, DType::f32, DType::f32},
          {LatentWeights::split, DType::f32, DType::f32},
          {LatentWeights::joint, DType::bf16, DType::bf16},
          {LatentWeights::split, DType::f16, DType::f16}};
}

TinyMla model_of(const Weights& weights) {
  TinyMla model;
  model.weights = weights.kind;
  model.keys = weights.keys;
  model.values = weights.values;
  if (weights.kind == LatentWeights::split) model.rope = plan::RopeStyle::halves;
  if (!dtype_info(weights.keys).is_quantized) model.nope = 48;
  return model;
}

// What the reference makes of 70 rows, once a model.
const std::vector<float>& expected_logits(const TinyMla& model) {
  static std::map<std::tuple<LatentWeights, DType, DType>, std::vector<float>> of_models;
  auto& logits = of_models[{model.weights, model.keys, model.values}];
  if (logits.empty()) {
    logits = run_on(*make_reference_backend(), model, plan::Phase::decode, false, prompt(0, 70, 0));
  }
  return logits;
}

class CpuMla : public testing::TestWithParam<std::tuple<std::string, Weights>> {
 protected:
  std::string isa() const { return std::get<0>(GetParam()); }
  TinyMla model() const { return model_of(std::get<1>(GetParam())); }
  bool quantized() const { return dtype_info(std::get<1>(GetParam()).values).is_quantized; }
};

TEST_P(CpuMla, DecodeEqualsTheReference) {
  const auto device = cpu(2, isa());
  const auto got = run_on(*device, model(), plan::Phase::decode, false, prompt(0, 70, 0));
  EXPECT_LT(difference(got, expected_logits(model())), quantized() ? 0.05 : 1e-5);
}

TEST_P(CpuMla, PrefillEqualsTheReference) {
  const auto device = cpu(2, isa());
  const auto got = run_on(*device, model(), plan::Phase::prefill, false, prompt(0, 70, 0));
  EXPECT_LT(difference(got, expected_logits(model())), 0.05);
}

TEST_P(CpuMla, BitsDoNotDependOnThreadsNeighboursOrInstructionSet) {
  const auto one = cpu(1, "");
  const auto two = cpu(2, isa());
  const auto alone = prompt(0, 17, 0);
  auto batch = alone;
  for (const Runner::Row& row : prompt(0, 40, 1)) batch.push_back(row);
  const auto expected = run_on(*one, model(), plan::Phase::decode, false, alone);
  const auto together = run_on(*two, model(), plan::Phase::decode, false, batch);
  ASSERT_GE(together.size(), expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), together.begin()));
}

TEST_P(CpuMla, DeterministicPrefillHasTheBitsOfDecode) {
  const auto device = cpu(2, isa());
  const auto whole = run_on(*device, model(), plan::Phase::prefill, true, prompt(0, 20, 0));
  Runner decode(*device, model().record(plan::Phase::decode, kCapacity, false), 1);
  std::vector<float> last;
  for (const Runner::Row& row : prompt(0, 20, 0)) last = decode.run({row});
  ASSERT_EQ(last.size(), 97U);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), whole.end() - 97));
}

// A page is expanded to the same keys and values whenever it is, for one block of queries or three.
TEST_P(CpuMla, ChunkedPrefillHasTheBitsOfTheWhole) {
  const auto device = cpu(2, isa());
  const auto whole = run_on(*device, model(), plan::Phase::prefill, false, prompt(0, 80, 0));
  Runner chunked(*device, model().record(plan::Phase::prefill, kCapacity, false), 1);
  std::vector<float> got;
  for (const auto& [begin, end] : {std::pair(0, 13), std::pair(13, 67), std::pair(67, 80)}) {
    for (const float logit : chunked.run(prompt(begin, end, 0))) got.push_back(logit);
  }
  EXPECT_EQ(got, whole);
}

// Under a sanitizer one set stands for all: their kernels run in the kernel tests.
std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const kernels::KernelSet& set : kernels::available_kernels()) names.push_back(set.name);
  if (test::kSanitized) names.resize(1);
  return names;
}

std::string test_name(const testing::TestParamInfo<std::tuple<std::string, Weights>>& test) {
  const auto& [isa, weights] = test.param;
  return fmt::format("{}_{}_{}_{}", isa, weights.kind == LatentWeights::joint ? "joint" : "split",
                     dtype_info(weights.keys).name, dtype_info(weights.values).name);
}
INSTANTIATE_TEST_SUITE_P(Quantized, CpuMla,
                         testing::Combine(testing::ValuesIn(isas()),
                                          testing::ValuesIn(quantized_weights())),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Floats, CpuMla,
                         testing::Combine(testing::Values(isas().front()),
                                          testing::ValuesIn(float_weights())),
                         test_name);

TEST(CpuMlaCache, HalfFloatsEqualTheReference) {
  TinyMla model;
  const auto device = cpu(2, "");
  for (const DType type : {DType::f16, DType::bf16}) {
    model.cache_type = type;
    const auto rows = prompt(0, 70, 0);
    const auto expected =
        run_on(*make_reference_backend(), model, plan::Phase::decode, false, rows);
    EXPECT_LT(difference(run_on(*device, model, plan::Phase::decode, false, rows), expected), 1e-3);
    EXPECT_LT(difference(run_on(*device, model, plan::Phase::prefill, false, rows), expected),
              0.05);
  }
}

// Of a short sequence each thread takes some heads, of a long one some parts.
TEST(CpuMlaHeads, ManyHaveTheSameBitsForAnyNumberOfThreads) {
  TinyMla model;
  model.heads = 12;
  std::vector<float> expected;
  for (const int threads : {1, 2, 5}) {
    const auto device = cpu(threads, "");
    Runner decode(*device, model.record(plan::Phase::decode, kCapacity, false), 1);
    decode.run(prompt(0, 5, 0));
    std::vector<float> got = decode.run({{0, 5, 9}});
    ASSERT_FALSE(got.empty());
    decode.run(prompt(6, 80, 0));
    for (const float logit : decode.run({{0, 80, 9}, {1, 0, 3}})) got.push_back(logit);
    if (threads == 1) expected = got;
    EXPECT_EQ(got, expected) << threads;
  }
}

TEST(CpuMlaCache, HasNoPartForValues) {
  const plan::Plan plan = TinyMla{}.record(plan::Phase::decode, kCapacity, false);
  EXPECT_EQ(plan.groups[0].page_bytes(), 2 * 64 * (256 + 32) * 4);
}

}  // namespace
}  // namespace orrery::backend
