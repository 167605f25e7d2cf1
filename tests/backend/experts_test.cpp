// Mixtures of experts: the router's choices against values worked out by hand, the CPU backend
// against the reference backend and against itself.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "kernels/dispatch.hpp"
#include "support/sanitized.hpp"
#include "support/tiny_llama.hpp"

namespace orrery::backend {
namespace {

using plan::Gate;
using plan::GroupScore;
using test::Runner;
using test::TinyLlama;

constexpr plan::Capacity kCapacity{80, 4, 80};

std::unique_ptr<Backend> cpu(int threads, const std::string& isa = "") {
  auto device = make_cpu_backend({threads, isa});
  EXPECT_TRUE(device);
  return std::move(*device);
}

// The routes that a backend makes of one token's logits.
std::vector<float> routes_of(Backend& device, std::vector<float> logits, plan::RouteOptions options,
                             std::vector<float> choice_bias = {}, float shared_gate = NAN) {
  const auto n = static_cast<std::uint32_t>(logits.size());
  plan::Builder b("t", plan::Phase::decode, {1, 1, 1}, false);
  Bindings bindings;
  const auto weight = [&](const char* name, std::uint32_t rows, const std::vector<float>& values) {
    bindings.weights.push_back(reinterpret_cast<const std::byte*>(values.data()));
    return b.weight({name, DType::f32, rows, static_cast<std::uint32_t>(values.size()) / rows});
  };
  const std::vector<float> one = {1.0F}, gate = {shared_gate};
  plan::MatmulOptions as_decode;
  as_decode.as_decode = true;
  const plan::BufferId x = b.embed(weight("one", 1, one), plan::kNone, 1.0F);
  const plan::BufferId router = b.matmul("logits", x, weight("router", n, logits), as_decode);
  if (!choice_bias.empty()) options.choice_bias = weight("bias", 1, choice_bias);
  if (!std::isnan(shared_gate)) {
    options.shared_gate = b.matmul("gate", x, weight("gate", 1, gate), as_decode);
  }
  const plan::BufferId routes = b.moe_route(router, options);
  b.tap("routes", routes);
  plan::Plan plan = plan::place(b.finish(), true);
  auto program = device.compile(plan, bindings);
  EXPECT_TRUE(program);
  const std::int32_t zero = 0;
  Batch batch;
  batch.n_tokens = batch.n_sequences = 1;
  batch.ids = batch.positions = batch.row_sequence = batch.output_rows = &zero;
  EXPECT_TRUE((*program)->run(batch, 0, (*program)->n_steps()));
  return (*program)->download(routes, 1);
}

void expect_routes(const std::vector<float>& logits, const plan::RouteOptions& options,
                   const std::vector<double>& want, const std::vector<float>& bias = {},
                   float shared_gate = NAN) {
  const auto reference = make_reference_backend(), fast = cpu(2);
  for (Backend* device : {reference.get(), fast.get()}) {
    const auto got = routes_of(*device, logits, options, bias, shared_gate);
    ASSERT_EQ(got.size(), want.size()) << device->info().name;
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-6) << device->info().name << ", element " << i;
    }
  }
}

TEST(Routes, SoftmaxBeforeTheChoiceOrAfterIt) {
  const std::vector<float> logits = {0.0F, std::log(4.0F), std::log(2.0F), std::log(1.0F)};
  expect_routes(logits, {.used = 2, .gate = Gate::softmax}, {1, 2, 0.5, 0.25});
  expect_routes(logits, {.used = 2, .gate = Gate::softmax, .renormalise = true},
                {1, 2, 2.0 / 3, 1.0 / 3});
  expect_routes(logits, {.used = 2, .gate = Gate::softmax_used}, {1, 2, 2.0 / 3, 1.0 / 3});
  expect_routes(logits, {.used = 2, .gate = Gate::softmax, .scale = 4.0F}, {1, 2, 2, 1});
}

TEST(Routes, TheFirstOfEqualsIsChosen) {
  expect_routes({1, 1, 1, 1}, {.used = 3, .gate = Gate::softmax}, {0, 1, 2, .25, .25, .25});
}

TEST(Routes, TheBiasDecidesTheChoiceAndNotTheWeight) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  expect_routes({1, 0, -1}, {.used = 1, .gate = Gate::sigmoid}, {2, sigmoid(-1)}, {0, 0, 1});
}

TEST(Routes, GroupsAreChosenByTheirBestOrTheirTwoBest) {
  // Groups (0, 1) and (2, 3): the best score is in the first, the best two are in the second.
  const std::vector<float> logits = {3, -4, 2, 1};
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  plan::RouteOptions options{.used = 2, .gate = Gate::sigmoid, .groups = 2, .groups_used = 1};
  expect_routes(logits, options, {0, 1, sigmoid(3), sigmoid(-4)});
  options.group_score = GroupScore::best_two;
  expect_routes(logits, options, {2, 3, sigmoid(2), sigmoid(1)});
}

TEST(Routes, ASharedExpertsGateIsTheLastWeight) {
  expect_routes({1, 0}, {.used = 1, .gate = Gate::softmax_used}, {0, 1, 0.75}, {}, std::log(3.0F));
}

TEST(Routes, LogitsThatAreNoNumbersStillGiveExperts) {
  for (const float logit : {NAN, INFINITY, -INFINITY}) {
    const auto routes =
        routes_of(*cpu(1), {logit, logit, logit}, {.used = 2, .gate = Gate::softmax});
    EXPECT_EQ(routes[0], 0);
    EXPECT_EQ(routes[1], 1);
  }
}

std::vector<Runner::Row> prompt(int n, std::int32_t sequence) {
  std::vector<Runner::Row> rows;
  for (int i = 0; i < n; ++i) rows.push_back({sequence, i, (i * 31 + 7 * sequence + 3) % 97});
  return rows;
}

std::vector<float> run_on(Backend& device, const TinyLlama& model, plan::Phase phase,
                          bool deterministic, const std::vector<Runner::Row>& rows) {
  Runner runner(device, model.record(phase, kCapacity, deterministic), 1);
  EXPECT_TRUE(runner);
  return runner ? runner.run(rows) : std::vector<float>{};
}

// Rows of 97 logits that differ by more than `bound` of the largest one.
int unlike_rows(const std::vector<float>& a, const std::vector<float>& b, double bound) {
  EXPECT_EQ(a.size(), b.size());
  double size = 0;
  for (const float value : b) size = std::max(size, std::abs(double{value}));
  int rows = 0;
  for (std::size_t r = 0; r < a.size(); r += 97) {
    double worst = 0;
    for (std::size_t i = r; i < r + 97; ++i) {
      worst = std::max(worst, std::isfinite(a[i]) ? std::abs(double(a[i]) - double(b[i])) : 1e30);
    }
    if (worst > bound * size) ++rows;
  }
  return rows;
}

class CpuExperts : public testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  static TinyLlama model() {
    TinyLlama tiny;
    tiny.type = std::get<1>(GetParam());
    tiny.mixture = {.experts = 7, .ffn = 96, .route = {.used = 3}, .shared = true, .biases = true};
    const DTypeInfo& info = dtype_info(tiny.type);
    if (info.block_len == 256) tiny.mixture.ffn = 256;
    if (info.block_len == 32) tiny.mixture.router = tiny.type;  // rounds its own operand
    return tiny;
  }
  static std::string isa() { return std::get<0>(GetParam()); }
  static bool quantized() { return dtype_info(std::get<1>(GetParam())).is_quantized; }
};

// What the reference makes of 70 rows; it knows no instruction sets, so it runs once a type.
const std::vector<float>& expected_logits(const TinyLlama& model) {
  static std::map<DType, std::vector<float>> of_types;
  auto& logits = of_types[model.type];
  if (logits.empty()) {
    logits = run_on(*make_reference_backend(), model, plan::Phase::decode, false, prompt(70, 0));
  }
  return logits;
}

TEST_P(CpuExperts, EqualTheReference) {
  const auto rows = prompt(70, 0);
  const auto& expected = expected_logits(model());
  const auto device = cpu(2, isa());
  const auto decoded = run_on(*device, model(), plan::Phase::decode, false, rows);
  const auto prefilled = run_on(*device, model(), plan::Phase::prefill, false, rows);
  // A token in seventy may be so near to another expert that it goes there.
  EXPECT_LE(unlike_rows(decoded, expected, quantized() ? 0.05 : 1e-5), quantized() ? 4 : 0);
  EXPECT_LE(unlike_rows(prefilled, expected, 0.05), 4);
  TinyLlama as_decode = model();
  as_decode.mixture.as_decode = true;
  const auto mixed = run_on(*device, as_decode, plan::Phase::prefill, false, rows);
  EXPECT_LE(unlike_rows(mixed, expected, 0.05), 4);
}

TEST_P(CpuExperts, BitsDoNotDependOnThreadsOrNeighbours) {
  const auto one = cpu(1, isa());
  const auto two = cpu(2, isa());
  const auto alone = prompt(17, 0);
  auto batch = alone;
  for (const Runner::Row& row : prompt(50, 1)) batch.push_back(row);
  const auto expected = run_on(*one, model(), plan::Phase::decode, false, alone);
  const auto together = run_on(*two, model(), plan::Phase::decode, false, batch);
  ASSERT_GE(together.size(), expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), together.begin()));
}

TEST_P(CpuExperts, DeterministicPrefillHasTheBitsOfDecode) {
  const auto device = cpu(2, isa());
  const auto rows = prompt(40, 0);
  const auto whole = run_on(*device, model(), plan::Phase::prefill, true, rows);
  Runner decode(*device, model().record(plan::Phase::decode, kCapacity, false), 1);
  std::vector<float> each;
  for (const Runner::Row& row : rows) {
    for (const float logit : decode.run({row})) each.push_back(logit);
  }
  EXPECT_EQ(each, whole);
}

std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const kernels::KernelSet& set : kernels::available_kernels()) names.push_back(set.name);
  if (test::kSanitized) names.resize(1);
  return names;
}

std::vector<DType> types() {
  if (test::kSanitized) return {DType::q4_0};
  return {DType::f32, DType::bf16, DType::q8_0, DType::q4_k};
}

INSTANTIATE_TEST_SUITE_P(Everywhere, CpuExperts,
                         testing::Combine(testing::ValuesIn(isas()), testing::ValuesIn(types())),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param),
                                              dtype_info(std::get<1>(test.param)).name);
                         });

// Weights of routes that are factors of an expert's input, experts without a gate, a bias of the
// sum, a factor for each expert.
TEST(CpuExpertVariants, EqualTheReference) {
  const auto device = cpu(2);
  const auto rows = prompt(70, 0);
  for (const DType type : {DType::f32, DType::q8_0}) {
    for (int variant = 0; variant < 4; ++variant) {
      SCOPED_TRACE(fmt::format("{} {}", dtype_info(type).name, variant));
      TinyLlama model;
      model.type = type;
      model.mixture = {.experts = 5, .ffn = 96, .route = {.used = 2}, .shared = true};
      model.mixture.weigh_input = variant == 0;
      model.mixture.gated = variant != 1;
      model.mixture.sum_bias = variant == 2;
      model.mixture.factors = variant == 3;
      const auto expected =
          run_on(*make_reference_backend(), model, plan::Phase::decode, false, rows);
      const bool exact = type == DType::f32;
      const auto decoded = run_on(*device, model, plan::Phase::decode, false, rows);
      EXPECT_LE(unlike_rows(decoded, expected, exact ? 1e-5 : 0.05), exact ? 0 : 4);
      const auto prefilled = run_on(*device, model, plan::Phase::prefill, false, rows);
      EXPECT_LE(unlike_rows(prefilled, expected, 0.05), 4);
      const auto whole = run_on(*device, model, plan::Phase::prefill, true, rows);
      EXPECT_EQ(whole, decoded);
    }
  }
}

// All tokens to the same experts, more than a pass brings together; and one expert for each token.
TEST(CpuExpertLists, OneExpertMayHaveAllTokens) {
  TinyLlama model;
  model.mixture = {.experts = 300, .ffn = 32, .route = {.used = 1}};
  const auto rows = prompt(70, 0);
  const auto device = cpu(2);
  for (const bool one : {false, true}) {
    if (one) model.mixture.experts = 1;
    const auto expected =
        run_on(*make_reference_backend(), model, plan::Phase::decode, false, rows);
    EXPECT_EQ(unlike_rows(run_on(*device, model, plan::Phase::decode, false, rows), expected, 1e-5),
              0);
    EXPECT_LE(
        unlike_rows(run_on(*device, model, plan::Phase::prefill, false, rows), expected, 0.05), 4);
  }
}

}  // namespace
}  // namespace orrery::backend
