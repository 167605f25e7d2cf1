// The CPU backend against the reference backend, and against itself: threads, batches, phases.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "base/clock.hpp"
#include "kernels/dispatch.hpp"
#include "support/sanitized.hpp"
#include "support/tiny_llama.hpp"
#include "tensor/cache_page.hpp"

namespace orrery::backend {
namespace {

using test::Runner;
using test::TinyLlama;

constexpr plan::Capacity kCapacity{80, 4, 80};

std::vector<Runner::Row> prompt(int n, std::int32_t sequence) {
  std::vector<Runner::Row> rows;
  for (int i = 0; i < n; ++i) rows.push_back({sequence, i, (i * 31 + 7 * sequence + 3) % 97});
  return rows;
}

// Largest difference in units of the largest logit.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  double size = 1e-9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return 1e30;
    worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
    size = std::max(size, std::abs(double(b[i])));
  }
  return worst / size;
}

std::vector<float> run_on(Backend& device, const TinyLlama& model, plan::Phase phase,
                          bool deterministic, const std::vector<Runner::Row>& rows) {
  Runner runner(device, model.record(phase, kCapacity, deterministic), 1);
  EXPECT_TRUE(runner);
  return runner ? runner.run(rows) : std::vector<float>{};
}

std::unique_ptr<Backend> cpu(int threads, const std::string& isa) {
  auto device = make_cpu_backend({threads, isa});
  EXPECT_TRUE(device);
  return std::move(*device);
}

class CpuBackend : public testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  TinyLlama model() const {
    TinyLlama tiny;
    tiny.type = std::get<1>(GetParam());
    return tiny;
  }
  std::string isa() const { return std::get<0>(GetParam()); }
  bool quantized() const { return dtype_info(std::get<1>(GetParam())).is_quantized; }
};

// What the reference makes of 70 rows; it knows no instruction sets, so it runs once a model.
const std::vector<float>& expected_logits(const TinyLlama& model) {
  static std::map<std::tuple<DType, DType, DType>, std::vector<float>> of_types;
  auto& logits = of_types[{model.type, model.k_type, model.v_type}];
  if (logits.empty()) {
    logits = run_on(*make_reference_backend(), model, plan::Phase::decode, false, prompt(70, 0));
  }
  return logits;
}

TEST_P(CpuBackend, DecodeEqualsTheReference) {
  const auto rows = prompt(70, 0);
  const auto& expected = expected_logits(model());
  const auto device = cpu(2, isa());
  const auto got = run_on(*device, model(), plan::Phase::decode, false, rows);
  EXPECT_LT(difference(got, expected), quantized() ? 0.05 : 1e-5);
}

TEST_P(CpuBackend, PrefillEqualsTheReference) {
  const auto rows = prompt(70, 0);
  const auto& expected = expected_logits(model());
  const auto device = cpu(2, isa());
  const auto got = run_on(*device, model(), plan::Phase::prefill, false, rows);
  EXPECT_LT(difference(got, expected), 0.05);
}

TEST_P(CpuBackend, BitsDoNotDependOnThreadsOrNeighbours) {
  const auto one = cpu(1, isa());
  const auto two = cpu(2, isa());
  const auto alone = prompt(17, 0);
  auto batch = alone;
  for (const Runner::Row& row : prompt(9, 1)) batch.push_back(row);
  const auto expected = run_on(*one, model(), plan::Phase::decode, false, alone);
  const auto together = run_on(*two, model(), plan::Phase::decode, false, batch);
  ASSERT_GE(together.size(), expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), together.begin()));
}

TEST_P(CpuBackend, DeterministicPrefillHasTheBitsOfDecode) {
  const auto device = cpu(2, isa());
  const auto rows = prompt(40, 0);
  const auto whole = run_on(*device, model(), plan::Phase::prefill, true, rows);
  Runner decode(*device, model().record(plan::Phase::decode, kCapacity, false), 1);
  std::vector<float> last;
  for (const Runner::Row& row : rows) last = decode.run({row});
  ASSERT_EQ(last.size(), 97U);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), whole.end() - 97));
}

std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const kernels::KernelSet& set : kernels::available_kernels()) names.push_back(set.name);
  return names;
}

// Under a sanitizer one plain type and one of blocks: every type's kernels run in the kernel tests.
std::vector<DType> types() {
  if (test::kSanitized) return {DType::f32, DType::q4_k};
  return {DType::f32, DType::bf16, DType::q4_1, DType::q8_0, DType::q4_k, DType::q6_k};
}

INSTANTIATE_TEST_SUITE_P(Everywhere, CpuBackend,
                         testing::Combine(testing::ValuesIn(isas()), testing::ValuesIn(types())),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param),
                                              dtype_info(std::get<1>(test.param)).name);
                         });

TEST(CpuBackendOptions, WindowSoftcapAndQkNormEqualTheReference) {
  TinyLlama model;
  model.window = 16;
  model.softcap = 3.0F;
  model.qk_norm = true;
  const auto rows = prompt(70, 0);
  const auto expected = run_on(*make_reference_backend(), model, plan::Phase::decode, false, rows);
  const auto device = cpu(2, "");
  EXPECT_LT(difference(run_on(*device, model, plan::Phase::decode, false, rows), expected), 1e-5);
  EXPECT_LT(difference(run_on(*device, model, plan::Phase::prefill, false, rows), expected), 0.05);
}

// Chunks, norms without weights, and queries that grow where nothing rotates.
TEST(CpuBackendOptions, ChunksUnitNormsAndGrowthEqualTheReference) {
  TinyLlama model;
  model.window = 24;
  model.chunked = true;
  model.qk_norm = true;
  model.qk_norm_weights = false;
  model.query_growth = {.rate = 0.5F, .step = 10};
  const auto rows = prompt(70, 0);
  const auto expected = run_on(*make_reference_backend(), model, plan::Phase::decode, false, rows);
  const auto device = cpu(2, "");
  EXPECT_LT(difference(run_on(*device, model, plan::Phase::decode, false, rows), expected), 1e-5);
  EXPECT_LT(difference(run_on(*device, model, plan::Phase::prefill, false, rows), expected), 0.05);
  Runner decode(*device, model.record(plan::Phase::decode, kCapacity, false), 1);
  std::vector<float> each;  // runs of one row do the rope step in attention's
  for (const Runner::Row& row : rows) {
    for (const float logit : decode.run({row})) each.push_back(logit);
  }
  EXPECT_EQ(each, run_on(*device, model, plan::Phase::prefill, true, rows));
}

struct CacheTypes {
  DType k, v;
};

std::vector<CacheTypes> cache_types() {
  std::vector<CacheTypes> types;
  for (const DType k : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType v : {DType::f32, DType::f16, DType::bf16}) types.push_back({k, v});
  }
  for (const DType k : {DType::f16, DType::q8_0, DType::q4_0}) {
    for (const DType v : {DType::f16, DType::q8_0, DType::q4_0}) {
      if (is_quantized_cache(k) || is_quantized_cache(v)) types.push_back({k, v});
    }
  }
  return types;
}

class CpuCacheTypes : public testing::TestWithParam<std::tuple<std::string, CacheTypes>> {
 protected:
  std::string isa() const { return std::get<0>(GetParam()); }
  TinyLlama model(DType weights) const {
    TinyLlama tiny;
    tiny.type = weights;
    tiny.k_type = std::get<1>(GetParam()).k;
    tiny.v_type = std::get<1>(GetParam()).v;
    return tiny;
  }
  // A value on the edge of two roundings may take either: f32 sums decide here, double ones there.
  double bound() const {
    const CacheTypes types = std::get<1>(GetParam());
    if (types.k == DType::q4_0 || types.v == DType::q4_0) return 0.05;
    if (types.k == DType::q8_0 || types.v == DType::q8_0) return 0.01;
    if (types.k == DType::bf16 || types.v == DType::bf16) return 1e-3;
    return types.k == DType::f16 || types.v == DType::f16 ? 1e-4 : 1e-5;
  }
};

TEST_P(CpuCacheTypes, EqualTheReference) {
  const auto rows = prompt(70, 0);
  const TinyLlama tiny = model(DType::f32);
  const auto& expected = expected_logits(tiny);
  const auto device = cpu(2, isa());
  EXPECT_LT(difference(run_on(*device, tiny, plan::Phase::decode, false, rows), expected), bound());
  EXPECT_LT(difference(run_on(*device, tiny, plan::Phase::prefill, false, rows), expected), 0.08);
}

TEST_P(CpuCacheTypes, BitsDependNeitherOnThreadsNorOnTheBatchOrPhase) {
  const TinyLlama tiny = model(DType::q4_1);
  const auto rows = prompt(70, 0);
  const auto two = cpu(2, isa());
  const auto whole = run_on(*two, tiny, plan::Phase::prefill, true, rows);
  for (const int threads : {1, 2}) {
    const auto device = cpu(threads, isa());
    Runner decode(*device, tiny.record(plan::Phase::decode, kCapacity, false), 1);
    std::vector<float> each;
    for (const Runner::Row& row : rows) {
      for (const float logit : decode.run({row})) each.push_back(logit);
    }
    EXPECT_EQ(each, whole);
  }
}

std::string cache_types_name(
    const testing::TestParamInfo<std::tuple<std::string, CacheTypes>>& test) {
  const auto& [isa, types] = test.param;
  return fmt::format("{}_{}_{}", isa, dtype_info(types.k).name, dtype_info(types.v).name);
}
// Every type once as K and once as V on every instruction set, every pair on the best one. Under a
// sanitizer the vectors of one set stand for those of the others.
std::vector<std::string> cache_isas() {
  return test::kSanitized ? std::vector<std::string>{isas().front()} : isas();
}
INSTANTIATE_TEST_SUITE_P(Everywhere, CpuCacheTypes,
                         testing::Combine(testing::ValuesIn(cache_isas()),
                                          testing::Values(CacheTypes{DType::f32, DType::bf16},
                                                          CacheTypes{DType::f16, DType::f32},
                                                          CacheTypes{DType::bf16, DType::f16},
                                                          CacheTypes{DType::q8_0, DType::q4_0})),
                         cache_types_name);
INSTANTIATE_TEST_SUITE_P(Pairs, CpuCacheTypes,
                         testing::Combine(testing::Values(isas().front()),
                                          testing::ValuesIn(test::kSanitized
                                                                ? std::vector<CacheTypes>{}
                                                                : cache_types())),
                         cache_types_name);

TEST(CpuBackendOptions, AnIdOutsideOfTheVocabularyIsRefused) {
  TinyLlama model;
  const auto device = cpu(1, "");
  Runner runner(*device, model.record(plan::Phase::decode, kCapacity, false), 1);
  EXPECT_TRUE(runner.run({{0, 0, 97}}).empty());
  EXPECT_TRUE(runner.run({{0, 0, -1}}).empty());
  EXPECT_FALSE(runner.run({{0, 0, 96}}).empty());
}

TEST(CpuBackendOptions, UnknownIsaIsAnError) {
  const auto device = make_cpu_backend({1, "abacus"});
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().kind, "E_ISA");
}

TEST(CpuBackendOptions, AProgramCanBeLeftAndResumedAtEveryStep) {
  TinyLlama model;
  const auto device = cpu(2, "");
  Runner whole(*device, model.record(plan::Phase::decode, kCapacity, false), 1);
  const auto expected = whole.run({{0, 0, 5}});
  Runner parts(*device, model.record(plan::Phase::decode, kCapacity, false), 1);
  const std::int32_t id = 5, zero = 0, page = 3;
  const std::int32_t* table = &page;
  Batch batch;
  batch.n_tokens = batch.n_sequences = batch.n_outputs = 1;
  batch.ids = &id;
  batch.positions = batch.row_sequence = batch.output_rows = &zero;
  batch.page_tables = {&table, 1};
  batch.pages_stride = 1;
  for (std::uint32_t s = 0; s < parts.program().n_steps(); ++s) {
    ASSERT_TRUE(parts.program().run(batch, s, s + 1));
  }
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), parts.program().result()));
}

TEST(CpuBackendOptions, TheProfileTellsWorkFromWaiting) {
  TinyLlama model;
  for (const int threads : {1, 2}) {
    const auto device = cpu(threads, "");
    Runner runner(*device, model.record(plan::Phase::decode, kCapacity, false), 1);
    Program& program = runner.program();
    runner.run({{0, 0, 5}});
    for (const StepTime& time : program.take_step_times()) EXPECT_EQ(time.busy, 0);
    program.set_profile(true);
    const double start = now_seconds();
    for (int i = 0; i < 20; ++i) runner.run({{0, i, 5}, {1, i, 5}});
    const double elapsed = now_seconds() - start;
    const std::vector<StepTime> times = program.take_step_times();
    ASSERT_EQ(times.size(), program.n_steps());
    double sum = 0;
    for (const StepTime& time : times) {
      EXPECT_GT(time.busy, 0);
      EXPECT_GT(time.waiting, 0);
      sum += time.busy + time.waiting;
    }
    EXPECT_LT(sum, elapsed * 1.001);
    // A thread alone starts at once and waits for nobody.
    if (threads == 1) {
      EXPECT_GT(sum, elapsed / 2);
    }
    for (const StepTime& time : program.take_step_times()) EXPECT_EQ(time.busy, 0);  // taken
  }
}

}  // namespace
}  // namespace orrery::backend
