// What running streams and prompts get of the time.
#include <gtest/gtest.h>

#include "engine/scheduler_loop_fixture.hpp"

namespace orrery::engine {
namespace {

using fake::Recorder;

// The clock goes 10 ms for a decode run and 1 ms for each token of a prompt.
class FairnessTest : public fake::SchedulerLoopTest {
 protected:
  void SetUp() override {
    backend.faults.on_run = [this](const backend::Batch& batch) {
      const bool is_decode = batch.n_outputs > 0 && batch.n_outputs == batch.n_tokens;
      now += is_decode ? 0.010 : 0.001 * batch.n_tokens;
    };
  }
};

TEST_F(FairnessTest, RunningStreamsKeepMoreThanHalfTheirPace) {
  make(4096, 4, 4);
  const auto stream = submit(fake::greedy(fake::random_tokens(3, 1), 0));
  while (stream->tokens.size() < 20) loop->tick();
  const auto prompt = submit(fake::greedy(fake::random_tokens(2000, 2), 1));
  const std::size_t before = stream->tokens.size();
  const double start = now;
  double last = now, longest = 0;
  stream->took = [&] {
    longest = std::max(longest, now - last);
    last = now;
  };
  while (prompt->ends == 0) loop->tick();
  const auto tokens = static_cast<double>(stream->tokens.size() - before);
  const double alone = (now - start) / 0.010;
  EXPECT_GT(tokens, 0.5 * alone);
  EXPECT_LT(tokens, 0.7 * alone);  // and the prompt gets on
  EXPECT_LT(longest, 0.010 + 0.060);
}

// Whatever waits: a stream that runs sees at most a slice of prompts between two tokens, and over
// time no more of them than six tenths of what its own steps take.
TEST_F(FairnessTest, ManyPromptsTakeNoMoreThanOne) {
  std::uint32_t since_step = 0, most = 0;
  double decoding = 0, prompts = 0;
  bool counts = false;
  backend.faults.on_run = [&](const backend::Batch& batch) {
    const bool is_decode = batch.n_outputs > 0 && batch.n_outputs == batch.n_tokens;
    const auto tokens = static_cast<std::uint32_t>(batch.n_tokens);
    const double seconds = is_decode ? 0.010 : 0.001 * tokens;
    now += seconds;
    if (!counts) return;
    (is_decode ? decoding : prompts) += seconds;
    since_step = is_decode ? 0 : since_step + tokens;
    most = std::max(most, since_step);
  };
  make(4096, 12, 12);
  std::vector<std::shared_ptr<Recorder>> streams;
  for (std::uint64_t i = 0; i < 4; ++i) {
    streams.push_back(submit(fake::greedy(fake::random_tokens(3, i), 0)));
  }
  while (std::ranges::any_of(streams, [](const auto& s) { return s->tokens.size() < 20; })) {
    loop->tick();
  }
  counts = true;
  std::vector<std::shared_ptr<Recorder>> all;
  for (std::uint64_t i = 0; i < 3; ++i) {
    all.push_back(submit(fake::greedy(fake::random_tokens(1500, 10 + i), 1)));
  }
  for (std::uint64_t i = 0; std::ranges::any_of(all, [](const auto& p) { return p->ends == 0; });) {
    loop->tick();
    if (++i % 10 == 0 && i < 1000) {
      all.push_back(submit(fake::greedy(fake::random_tokens(20 + i % 50, 100 + i), 1)));
    }
  }
  EXPECT_LE(most, executor->max_prefill_tokens());
  EXPECT_LE(prompts, 0.6 * decoding + 0.001 * executor->max_prefill_tokens());
  EXPECT_GT(prompts, 0.5 * decoding);
}

TEST_F(FairnessTest, APromptAloneTakesWholeSlices) {
  make(4096, 4, 4);
  const auto prompt = submit(fake::greedy(fake::random_tokens(960, 2), 1));
  int ticks = 0;
  for (; prompt->ends == 0; ++ticks) loop->tick();
  EXPECT_EQ(ticks, 20);  // of 48 tokens
}

// A request that comes while others' prompts are computed waits for half a slice at most.
TEST_F(FairnessTest, PromptsThatAreNotAloneTakeHalfSlices) {
  executor = *Executor::create(
      fake::record(plan::Phase::decode, {8, 8, 8}, fake::kWindow),
      fake::record(plan::Phase::prefill, {512, 1, 5}, fake::kWindow), backend,
      {.sequences = 4, .context = 4096, .slice = 0, .budget_bytes = 4000 * fake::kPageBytes});
  make_loop(4);
  int longest = 0;
  backend.faults.on_run = [&](const backend::Batch& batch) {
    longest = std::max(longest, batch.n_tokens);
  };
  submit(fake::greedy(fake::random_tokens(1500, 1), 1));
  submit(fake::greedy(fake::random_tokens(1000, 2), 1));
  for (int i = 0; i < 5; ++i) loop->tick();
  EXPECT_EQ(longest, 256);
  EXPECT_TRUE(loop->has_work());
  run_all();
  EXPECT_GT(longest, 256);  // the last of them was alone
}

TEST_F(FairnessTest, ShortPromptsPassLongOnesThatGetOnAllTheSame) {
  make(4096, 8, 8);
  const auto first = submit(fake::greedy(fake::random_tokens(1440, 1), 1));
  const auto second = submit(fake::greedy(fake::random_tokens(1440, 2), 1));
  for (int i = 0; i < 4; ++i) loop->tick();
  EXPECT_GE(first->done, 48U);
  EXPECT_GE(second->done, 48U);
  const auto quick = submit(fake::greedy(fake::random_tokens(40, 3), 1));
  for (int i = 0; i < 2; ++i) loop->tick();
  EXPECT_EQ(quick->ends, 1);
  // A stream of short ones takes half of the slices, no more.
  std::shared_ptr<Recorder> current = quick;
  int ticks = 0;
  for (std::uint64_t seed = 100; first->ends == 0 || second->ends == 0; ++ticks) {
    if (current->ends > 0) current = submit(fake::greedy(fake::random_tokens(40, ++seed), 1));
    loop->tick();
    ASSERT_LT(ticks, 2 * 60 + 10);
  }
}

}  // namespace
}  // namespace orrery::engine
