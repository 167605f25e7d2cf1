// Steps on parts of rows and on the streams of AltUp: values worked out by hand on the reference
// backend, the CPU backend against it in rows and in blocks, over shapes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "support/tiny_llama.hpp"

namespace orrery::backend {
namespace {

using plan::BufferId;
using plan::kNone;
using test::Runner;

constexpr plan::Capacity kCapacity{80, 4, 80};
constexpr std::uint32_t kVocab = 97;

struct Shape {
  std::uint32_t width;
  std::uint16_t streams, active;
};

// Every step once: streams, a router, predictions, cut gates, corrections, and one stream again.
plan::Plan record(const Shape& s, plan::Phase phase, bool deterministic) {
  plan::Builder b("streams", phase, kCapacity, deterministic);
  const std::uint32_t d = s.width, n = s.streams;
  const auto weight = [&](std::string name, std::uint32_t rows, std::uint32_t cols) {
    return b.weight({std::move(name), DType::f32, rows, cols});
  };
  const BufferId x = b.embed(weight("embedding", kVocab, d), kNone, 1.0F);
  BufferId streams = x;
  for (std::uint32_t i = 1; i < n; ++i) {
    const BufferId made =
        b.matmul("made", x, weight("in" + std::to_string(i), d, d), plan::MatmulOptions{});
    streams = b.join("streams", streams, b.match_rms("like", made, x, {}));
  }
  plan::MatmulOptions as_router;
  as_router.as_decode = true;
  as_router.softcap = 1.0F;
  const BufferId router = b.matmul("router", x, weight("router", n, d), as_router);
  const auto [predicted, active] =
      b.altup_predict(streams, router, weight("predict", n * n, n), s.active);
  const BufferId gate = b.matmul("gate", active, weight("gate", d, d), {});
  const BufferId y = b.mul("y", b.sparsify("cut", gate, 0.25F), b.columns("first", predicted, 0, d),
                           plan::Activation::silu);
  const auto [corrected, scaled] = b.altup_correct(predicted, y, router, weight("correct", n, n),
                                                   weight("scale", 1, d), s.active);
  const BufferId all = b.altup_add(corrected, b.add("sum", scaled, y, 0.5F));
  const BufferId rows = b.select_rows(all);
  plan::MatchOptions options;
  options.residual = b.columns("head", rows, 0, d);
  options.scale = 0.5F;
  const BufferId last = b.columns("tail", rows, (n - 1) * d, d);
  const BufferId merged = b.match_rms("merged", last, options.residual, options);
  b.logits(b.norm("unit", merged, kNone, {}), weight("output", kVocab, d), 1.0F, 0.0F);
  return b.finish();
}

std::vector<float> run_on(Backend& device, const Shape& shape, plan::Phase phase,
                          bool deterministic, int n) {
  Runner runner(device, record(shape, phase, deterministic), 1);
  EXPECT_TRUE(runner);
  std::vector<Runner::Row> rows;
  for (int i = 0; i < n; ++i) rows.push_back({0, i, (i * 31 + 3) % 97});
  return runner.run(rows);
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0, size = 1e-9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    worst = std::max(worst, std::isfinite(a[i]) ? std::abs(double(a[i]) - double(b[i])) : 1e30);
    size = std::max(size, std::abs(double(b[i])));
  }
  return worst / size;
}

TEST(Streams, CpuEqualsTheReference) {
  const auto reference = make_reference_backend();
  const auto device = make_cpu_backend({2, ""});
  ASSERT_TRUE(device);
  for (const Shape& shape : {Shape{16, 4, 1}, Shape{80, 2, 0}, Shape{48, 3, 2}}) {
    for (const int rows : {1, 7, 33, 70}) {
      SCOPED_TRACE(
          fmt::format("{} columns, {} streams, {} rows", shape.width, shape.streams, rows));
      const auto expected = run_on(*reference, shape, plan::Phase::decode, false, rows);
      ASSERT_EQ(expected.size(), static_cast<std::size_t>(rows) * kVocab);
      const auto decoded = run_on(**device, shape, plan::Phase::decode, false, rows);
      EXPECT_LT(difference(decoded, expected), 2e-5);
      EXPECT_EQ(run_on(**device, shape, plan::Phase::prefill, true, rows), decoded);
      const auto prefilled = run_on(**device, shape, plan::Phase::prefill, false, rows);
      EXPECT_LT(difference(prefilled, expected), 0.08);
    }
  }
}

// What the reference makes of rows (tokens, 4) by one step.
class StreamsByHand : public testing::Test {
 protected:
  plan::WeightId weight(const std::vector<float>& values, std::uint32_t rows) {
    data_.push_back(values);
    const auto cols = static_cast<std::uint32_t>(values.size()) / rows;
    const std::string name = std::to_string(data_.size());
    return b_.weight({name, DType::f32, rows, cols});
  }
  BufferId input(const std::vector<float>& row) { return b_.embed(weight(row, 1), kNone, 1.0F); }
  void expect(BufferId out, const std::vector<double>& want) {
    b_.tap("out", out);
    plan::Plan plan = plan::place(b_.finish(), true);
    Bindings bindings;
    for (const auto& values : data_) {
      bindings.weights.push_back(reinterpret_cast<const std::byte*>(values.data()));
    }
    const auto program = make_reference_backend()->compile(plan, bindings);
    ASSERT_TRUE(program);
    const std::int32_t zero = 0;
    Batch batch;
    batch.n_tokens = batch.n_sequences = 1;
    batch.ids = batch.positions = batch.row_sequence = batch.output_rows = &zero;
    ASSERT_TRUE((*program)->run(batch, 0, (*program)->n_steps()));
    const std::vector<float> got = (*program)->download(out, 1);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
  }

  std::deque<std::vector<float>> data_;
  plan::Builder b_{"t", plan::Phase::decode, {1, 1, 1}, false};
};

TEST_F(StreamsByHand, SparsifyCutsAtTheMeanAndSomeDeviations) {
  // Mean 3, deviation 2: the cut is at 4.
  expect(b_.sparsify("y", input({1, 1, 5, 5}), 0.5F), {0, 0, 1, 1});
}

TEST_F(StreamsByHand, MatchRmsTakesTheSizeOfTheOther) {
  plan::MatchOptions options;
  options.residual = input({1, 1, 1, 1});
  options.scale = 0.5F;
  expect(b_.match_rms("y", input({2, 0, 2, 0}), input({3, 3, 3, 3}), options),
         {(3 * std::sqrt(2.0) + 1) / 2, 0.5, (3 * std::sqrt(2.0) + 1) / 2, 0.5});
}

TEST_F(StreamsByHand, MatchRmsOfNothingIsSmall) {
  // The least mean square stands below the row's own, which is 1e-8.
  expect(b_.match_rms("y", input({1e-4F, -1e-4F}), input({1, 1}), {.least = 1e-4F}), {.01, -.01});
}

TEST_F(StreamsByHand, PredictAddsWhatTheRouterWeighs) {
  // Streams (1, 2) and (3, 4); c = w (1, 2) = (1, 0, 2, -1).
  const auto made =
      b_.altup_predict(input({1, 2, 3, 4}), input({1, 2}), weight({1, 0, 0, 0, 0, 1, 1, -1}, 4), 1);
  expect(made.all, {2, 4, 3 + 2 - 3, 4 + 4 - 4});
}

TEST_F(StreamsByHand, CorrectSpreadsTheNews) {
  // News (10, 10) - (3, 4); c = (1, -1).
  const auto made = b_.altup_correct(input({1, 2, 3, 4}), input({10, 10}), input({1, 2}),
                                     weight({1, 0, 1, -1}, 2), weight({2, 3}, 1), 1);
  expect(made.all, {1 + 2 * 7, 2 + 2 * 6, 3, 4});
}

TEST_F(StreamsByHand, AddLeavesTheFirstStream) {
  expect(b_.altup_add(input({1, 2, 3, 4, 5, 6}), input({10, 20})), {1, 2, 13, 24, 15, 26});
}

// Gemma 3n's table of the layers' inputs is shorter than the vocabulary.
TEST(Streams, AnIdBeyondASecondTableTakesItsFirstRow) {
  plan::Builder b("t", plan::Phase::decode, {1, 1, 1}, false);
  const std::vector<float> words = {1, 2, 3, 4}, inputs = {10, 20};
  const BufferId x = b.embed(b.weight({"words", DType::f32, 4, 1}), kNone, 1.0F);
  const BufferId own = b.embed(b.weight({"inputs", DType::f32, 2, 1}), kNone, 1.0F);
  const BufferId sum = b.add("sum", x, own);
  b.tap("sum", sum);
  const plan::Plan plan = plan::place(b.finish(), true);
  Bindings bindings;
  bindings.weights = {reinterpret_cast<const std::byte*>(words.data()),
                      reinterpret_cast<const std::byte*>(inputs.data())};
  const auto fast = make_cpu_backend({1, ""});
  ASSERT_TRUE(fast);
  const auto reference = make_reference_backend();
  for (Backend* device : {reference.get(), fast->get()}) {
    const auto program = device->compile(plan, bindings);
    ASSERT_TRUE(program);
    for (const auto& [id, want] : {std::pair(1, 22.0F), std::pair(3, 14.0F)}) {
      const std::int32_t zero = 0, token = id;
      Batch batch;
      batch.n_tokens = batch.n_sequences = 1;
      batch.ids = &token;
      batch.positions = batch.row_sequence = batch.output_rows = &zero;
      ASSERT_TRUE((*program)->run(batch, 0, (*program)->n_steps()));
      EXPECT_EQ((*program)->download(sum, 1)[0], want) << device->info().name;
    }
  }
}

}  // namespace
}  // namespace orrery::backend
