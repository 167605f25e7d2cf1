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
  // For prompts of 12,000 tokens, in slices of up to 512.
  void make_long() {
    executor = *Executor::create(
        fake::record(plan::Phase::decode, {8, 8, 8}, fake::kWindow),
        fake::record(plan::Phase::prefill, {512, 1, 5}, fake::kWindow), backend,
        {.sequences = 4, .context = 12000, .slice = 0, .budget_bytes = 4000 * fake::kPageBytes});
    make_loop(4);
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

// Whatever waits: a stream that runs sees at most a slice of a long prompt and a few short ones
// between two tokens, and over time no more of them than six tenths of what its own steps take.
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
  const double burst = 0.003 * executor->max_prefill_tokens();
  EXPECT_LE(0.001 * most, burst);
  EXPECT_LE(prompts, 0.6 * decoding + 0.250 + burst);  // what was saved before
  EXPECT_GT(prompts, 0.5 * decoding);
}

TEST_F(FairnessTest, APromptAloneTakesWholeSlices) {
  make(4096, 4, 4);
  const auto prompt = submit(fake::greedy(fake::random_tokens(960, 2), 1));
  int ticks = 0;
  for (; prompt->ends == 0; ++ticks) loop->tick();
  EXPECT_EQ(ticks, 20);  // of 48 tokens
}

// A request that comes while others' prompts are computed waits for 40 ms and the end of a block.
TEST_F(FairnessTest, SlicesAreShortUntilAPromptIsAloneForASecond) {
  make_long();
  double other_ended = 0;
  std::uint32_t longest = 0, longest_later = 0;
  backend.faults.on_run = [&](const backend::Batch& batch) {
    const auto tokens = static_cast<std::uint32_t>(batch.n_tokens);
    auto& most = other_ended == 0 || now < other_ended + 0.9 ? longest : longest_later;
    most = std::max(most, tokens);
    now += 0.0004 * tokens;
  };
  const auto other = submit(fake::greedy(fake::random_tokens(600, 1), 1));
  const auto prompt = submit(fake::greedy(fake::random_tokens(6000, 2), 1));
  while (other->ends == 0) loop->tick();
  other_ended = now;
  run_all();
  EXPECT_EQ(prompt->ends, 1);
  EXPECT_EQ(longest, 96U);
  EXPECT_EQ(longest_later, 512U);
}

// Attention makes a token at a depth of 10,000 ten times as expensive here.
TEST_F(FairnessTest, SlicesGetShorterWithDepth) {
  make_long();
  double longest = 0;
  std::map<int, int> tokens_at;  // of the first slice in each thousand of depth
  backend.faults.on_run = [&](const backend::Batch& batch) {
    if (batch.n_outputs == batch.n_tokens) {
      now += 0.010;
      return;
    }
    const double seconds = 1e-7 * batch.n_tokens * (1000 + batch.positions[0]);
    tokens_at.emplace(batch.positions[0] / 1000, batch.n_tokens);
    longest = std::max(longest, seconds);
    now += seconds;
  };
  const auto stream = submit(fake::greedy(fake::random_tokens(3, 1), 0));
  while (stream->tokens.size() < 3) loop->tick();
  const auto deep = submit(fake::greedy(fake::random_tokens(10000, 2), 1));
  while (deep->ends == 0) loop->tick();
  EXPECT_LT(longest, 0.080);
  EXPECT_EQ(tokens_at[9], 64);
  EXPECT_GT(tokens_at[1], 128);
  // What is learned down there is no measure of what comes next.
  longest = 0;
  tokens_at.clear();
  submit(fake::greedy(fake::random_tokens(1000, 3), 1));
  const auto next = submit(fake::greedy(fake::random_tokens(1000, 4), 1));
  while (next->ends == 0) loop->tick();
  EXPECT_GT(longest, 0.020);
}

TEST_F(FairnessTest, ShortPromptsPassLongOnesThatGetOnAllTheSame) {
  make(4096, 8, 8);
  const auto first = submit(fake::greedy(fake::random_tokens(1440, 1), 1));
  const auto second = submit(fake::greedy(fake::random_tokens(1440, 2), 1));
  for (int i = 0; i < 12; ++i) loop->tick();
  EXPECT_GE(first->done, 96U);
  EXPECT_GE(second->done, 96U);
  const auto quick = submit(fake::greedy(fake::random_tokens(40, 3), 1));
  for (int i = 0; i < 2; ++i) loop->tick();
  EXPECT_EQ(quick->ends, 1);
  // A stream of short ones takes half of the time, no more.
  std::shared_ptr<Recorder> current = quick;
  double shorts = 0;
  const double begin = now;
  for (std::uint64_t seed = 100; first->ends == 0 || second->ends == 0;) {
    if (current->ends > 0) {
      shorts += 0.040;
      current = submit(fake::greedy(fake::random_tokens(40, ++seed), 1));
    }
    loop->tick();
    ASSERT_LT(shorts, 0.5 * (now - begin) + 0.25 + 0.2);
  }
  EXPECT_GT(shorts, 0.4 * (now - begin));
}

// Beside streams, too, whose time short prompts borrow: neither do they wait for what a long one
// has used up, nor does it wait for ever because something is owed always.
TEST_F(FairnessTest, ShortPromptsBorrowFromStreams) {
  make(4096, 8, 8);
  const auto stream = submit(fake::greedy(fake::random_tokens(3, 1), 0));
  while (stream->tokens.size() < 20) loop->tick();
  const auto prompt = submit(fake::greedy(fake::random_tokens(1440, 2), 1));
  while (prompt->done < 480) loop->tick();  // it has just had a slice
  const double asked = now;
  std::shared_ptr<Recorder> current = submit(fake::greedy(fake::random_tokens(20, 3), 1));
  while (current->ends == 0) loop->tick();
  EXPECT_LT(now - asked, 0.010 + 0.032 + 0.001);
  for (std::uint64_t seed = 100; prompt->ends == 0;) {
    if (current->ends > 0) current = submit(fake::greedy(fake::random_tokens(40, ++seed), 1));
    loop->tick();
    ASSERT_LT(now - asked, 7);  // 2 * 0.96 s of prompts at 6 of 16 parts, and what passed before
  }
}

// Where the least slice takes seconds, too.
TEST_F(FairnessTest, ShortPromptsBorrowFromSlowStreams) {
  backend.faults.on_run = [this](const backend::Batch& batch) {
    now += batch.n_outputs == batch.n_tokens ? 0.3 : 0.02 * std::max(batch.n_tokens, 32);
  };
  make(4096, 8, 8);
  const auto stream = submit(fake::greedy(fake::random_tokens(3, 1), 0));
  while (stream->tokens.size() < 20) loop->tick();
  const auto prompt = submit(fake::greedy(fake::random_tokens(1440, 2), 1));
  while (prompt->done < 480) loop->tick();
  const double asked = now;
  const auto next_turn = submit(fake::greedy(fake::random_tokens(20, 3), 1));
  while (next_turn->ends == 0) loop->tick();
  EXPECT_LT(now - asked, 0.3 + 0.64 + 0.01);
}

}  // namespace
}  // namespace orrery::engine
