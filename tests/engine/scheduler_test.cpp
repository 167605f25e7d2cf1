// The scheduler with its thread: submission, cancellation, draining, and greedy answers of a real
// model that are equal alone, among others and after reuse.
#include "engine/scheduler.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <latch>
#include <thread>

#include "engine/scheduler_fixture.hpp"
#include "support/paths.hpp"
#include "support/sanitized.hpp"

namespace orrery::engine {
namespace {

using fake::Recorder;
using fake::Tokens;

class SchedulerTest : public testing::Test {
 protected:
  void start(std::uint32_t running, std::uint32_t queued) {
    executor = fake::make_executor(backend, 600, running + 2);
    auto started = start_scheduler({executor, &tokenizer, fake::kVocab},
                                   {.running = running, .queued = queued});
    ASSERT_TRUE(started) << started.error().message;
    scheduler = std::move(*started);
  }
  // A request whose first token holds the scheduler's thread until `open` is counted down.
  std::shared_ptr<Recorder> submit_blocker(std::latch& open) {
    auto events = std::make_shared<Recorder>();
    events->took = [&open] { open.wait(); };
    EXPECT_TRUE(scheduler->submit(fake::greedy({1, 2}, 1), events));
    return events;
  }

  fake::Backend backend;
  fake::Tokenizer tokenizer{fake::alphabet()};
  std::shared_ptr<Executor> executor;
  std::unique_ptr<Scheduler> scheduler;
};

TEST_F(SchedulerTest, SlotsAreSetAsideBesideRunningRequests) {
  start(2, 8);
  const Tokens prompt = fake::random_tokens(100, 7);
  auto first = fake::greedy(prompt, 4);
  first.slot = 3;
  const auto done = std::make_shared<Recorder>();
  ASSERT_TRUE(scheduler->submit(std::move(first), done));
  EXPECT_EQ(done->wait().slot, 3U);
  EXPECT_EQ(done->end.held_tokens, 103U);
  std::latch open(1), holds(1);
  auto blocked = fake::greedy({1, 2}, 1);
  blocked.slot = 1;
  const auto blocker = std::make_shared<Recorder>();
  blocker->took = [&] {
    holds.count_down();
    open.wait();
  };
  ASSERT_TRUE(scheduler->submit(std::move(blocked), blocker));
  holds.wait();
  std::thread later([&] { open.count_down(); });
  // Waits for the end of the tick, whatever it is at.
  EXPECT_EQ(scheduler->use_slot(4, "", [](Session&) { return Status(); }).error().kind, "E_SLOT");
  later.join();
  blocker->wait();
  std::vector<SlotState> states = scheduler->slots("");
  ASSERT_EQ(states.size(), 4U);
  EXPECT_EQ(states[3].tokens, 103U);
  EXPECT_FALSE(states[3].is_busy);
  EXPECT_EQ(scheduler->slots("other")[3].tokens, 0U);
  // While one is set aside, others run, and it is not taken.
  const Status used = scheduler->use_slot(3, "", [&](Session& session) -> Status {
    EXPECT_EQ(session.held().size(), 103U);
    EXPECT_EQ(scheduler->use_slot(3, "", [](Session&) { return Status(); }).error().kind,
              "E_INUSE");
    auto wishes = fake::greedy(prompt, 4);
    wishes.slot = 3;
    const auto beside = std::make_shared<Recorder>();
    EXPECT_TRUE(scheduler->submit(std::move(wishes), beside));
    EXPECT_NE(beside->wait().slot, 3U);
    EXPECT_EQ(beside->end.reused_tokens, 0U);
    EXPECT_EQ(beside->tokens, done->tokens);
    return fail("E_TEST", "as the work says");
  });
  EXPECT_EQ(used.error().kind, "E_TEST");
  EXPECT_EQ(scheduler->slots("")[3].tokens, 103U);
}

TEST_F(SchedulerTest, AnswersRequestsOfManyThreads) {
  start(4, 64);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 15; ++i) {
        const Tokens prompt = fake::random_tokens(1 + (t + i) * 9 % 130, t * 100 + i);
        const auto events = std::make_shared<Recorder>();
        const auto id = scheduler->submit(fake::greedy(prompt, 12), events);
        ASSERT_TRUE(id);
        if (i % 5 == 4) scheduler->cancel(*id);
        const RequestEnd& end = events->wait();
        EXPECT_EQ(events->tokens, fake::greedy_answer(prompt, end.new_tokens));
        EXPECT_TRUE(end.new_tokens == 12 || end.finish == FinishReason::cancelled);
        EXPECT_GE(end.queue_seconds, 0);
        scheduler->cancel(*id);  // has ended: nothing happens
        scheduler->stats();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  scheduler->drain();
  EXPECT_EQ(scheduler->submit(fake::greedy({1}, 1), std::make_shared<Recorder>()).error().kind,
            "E_STOPPED");
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.requests, 60U);
  EXPECT_EQ(stats.running + stats.queued, 0U);
  scheduler.reset();
  EXPECT_EQ(executor->kv().pages_in_use(0), 0U);
}

TEST_F(SchedulerTest, MoreThanTheQueueHoldsAreRefused) {
  start(1, 2);
  std::latch open(1);
  const auto blocker = submit_blocker(open);
  std::vector<std::shared_ptr<Recorder>> all;
  for (int i = 0; i < 2; ++i) {
    all.push_back(std::make_shared<Recorder>());
    EXPECT_TRUE(scheduler->submit(fake::greedy({3, 4}, 2), all.back()));
  }
  const auto refused = std::make_shared<Recorder>();
  EXPECT_EQ(scheduler->submit(fake::greedy({3, 4}, 2), refused).error().kind, "E_BUSY");
  EXPECT_EQ(scheduler->stats().refused, 1U);
  EXPECT_EQ(scheduler->stats().running + scheduler->stats().queued, 3U);
  open.count_down();
  for (const auto& events : all) EXPECT_EQ(events->wait().new_tokens, 2U);
  EXPECT_EQ(refused->ends, 0);
  EXPECT_TRUE(scheduler->submit(fake::greedy({3, 4}, 2), refused));
  EXPECT_EQ(refused->wait().new_tokens, 2U);
}

TEST_F(SchedulerTest, BadRequestsAreErrorsAtOnce) {
  start(1, 1);
  const auto events = std::make_shared<Recorder>();
  const auto kind = [&](Request request) {
    return scheduler->submit(std::move(request), events).error().kind;
  };
  EXPECT_EQ(kind(fake::greedy({}, 1)), "E_TOKENS");
  EXPECT_EQ(kind(fake::greedy({97}, 1)), "E_TOKENS");
  EXPECT_EQ(kind(fake::greedy(Tokens(601, 1), 1)), "E_CONTEXT");
  Request request = fake::greedy({1}, 1);
  request.sampling.top_p = 2;
  EXPECT_EQ(kind(std::move(request)), "E_PARAM");
  EXPECT_EQ(events->ends, 0);
  EXPECT_EQ(start_scheduler({executor, &tokenizer, fake::kVocab}, {.running = 0}).error().kind,
            "E_PARAM");
}

TEST_F(SchedulerTest, TheEndOfTheSchedulerEndsItsRequests) {
  start(1, 4);
  std::latch open(1);
  const auto blocker = std::make_shared<Recorder>();
  blocker->took = [&open] { open.wait(); };
  ASSERT_TRUE(scheduler->submit(fake::greedy({1, 2}, 0), blocker));
  const auto queued = std::make_shared<Recorder>();
  ASSERT_TRUE(scheduler->submit(fake::greedy({1, 2}, 0), queued));
  std::thread closer([&] { scheduler.reset(); });
  open.count_down();
  closer.join();
  for (const auto& events : {blocker, queued}) {
    EXPECT_EQ(events->ends, 1);
    // The first may fill its context before the scheduler is told to stop.
    EXPECT_EQ(events->end.error.value_or(Error{"E_STOPPED", ""}).kind, "E_STOPPED");
  }
  EXPECT_EQ(executor->kv().pages_in_use(0), 0U);
}

TEST_F(SchedulerTest, StopEndsRequestsAtOnce) {
  start(1, 4);
  std::latch open(1);
  const auto running = std::make_shared<Recorder>();
  running->took = [&open] { open.wait(); };
  ASSERT_TRUE(scheduler->submit(fake::greedy({1, 2}, 0), running));
  const auto queued = std::make_shared<Recorder>();
  ASSERT_TRUE(scheduler->submit(fake::greedy({1, 2}, 0), queued));
  scheduler->stop();
  open.count_down();
  for (const auto& events : {running, queued}) {
    ASSERT_TRUE(events->wait().error);
    EXPECT_EQ(events->end.error->kind, "E_STOPPED");
  }
  EXPECT_EQ(scheduler->submit(fake::greedy({1}, 1), queued).error().kind, "E_STOPPED");
}

// A stream and vectors of long texts take turns; neither changes the other.
TEST(SchedulerModelTest, StreamsGoOnBesideTheVectorOfALongText) {
  const std::string file = test::shared_dir() + "/data/golden/llama/llama-f16.gguf";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is absent";
  ModelOptions options;
  options.threads = 2;
  options.max_sequences = 2;
  const auto model = Model::open(file, options, storage::system_io());
  ASSERT_TRUE(model) << model.error().message;
  const Tokens text = fake::random_tokens((*model)->embed_context(), 1);
  const int parts = static_cast<int>(text.size() / Embedder::kPartTokens);
  ASSERT_GE(parts, 4);
  const auto alone = (*model)->embed(text);
  ASSERT_TRUE(alone) << alone.error().message;
  const auto scheduler = Scheduler::start(*model, {});
  ASSERT_TRUE(scheduler);
  std::atomic<int> tokens{0};
  Request request;
  request.prompt = {1, 2, 3};
  request.sampling.temperature = 0;
  request.ignore_end = true;
  request.overflow = Overflow::shift;
  const auto events = std::make_shared<Recorder>();
  events->took = [&tokens] { ++tokens; };
  const auto id = (*scheduler)->submit(std::move(request), events);
  ASSERT_TRUE(id);
  // Two steps may be on their way when a text begins. The system may set the stream's thread aside
  // while one is read, not always.
  int most = 0;
  for (int tries = 0; tries < 100 && most < parts / 2 + 2; ++tries) {
    const int before = tokens;
    EXPECT_EQ((*model)->embed(text).value(), *alone);
    most = std::max(most, tokens - before);
  }
  EXPECT_GE(most, parts / 2 + 2);
  (*scheduler)->cancel(*id);
  events->wait();
}

// Two threads that compute, pages shared and taken over: every bit as a request alone.
TEST(SchedulerModelTest, GreedyAnswersAreEqualAloneAmongOthersAndAfterReuse) {
  for (const char* name : {"llama", "lfm2", "mistral"}) {
    const std::string file = test::shared_dir() + "/data/golden/" + name + "/" + name + "-f16.gguf";
    if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is absent";
    ModelOptions options;
    options.threads = 2;
    options.context = 256;
    options.deterministic = true;
    options.max_sequences = 8;
    const auto model = Model::open(file, options, storage::system_io());
    ASSERT_TRUE(model) << model.error().message;
    const auto run = [](Scheduler& scheduler, const std::vector<Tokens>& prompts) {
      std::vector<std::shared_ptr<Recorder>> all;
      for (const Tokens& prompt : prompts) {
        Request request;
        request.prompt = prompt;
        request.sampling.temperature = 0;
        request.max_tokens = 24;
        request.ignore_end = true;
        all.push_back(std::make_shared<Recorder>());
        EXPECT_TRUE(scheduler.submit(std::move(request), all.back()));
      }
      for (const auto& events : all) EXPECT_FALSE(events->wait().error);
      return all;
    };
    std::vector<Tokens> prompts;
    for (std::uint64_t i = 0; i < 6; ++i) {
      prompts.push_back(fake::random_tokens(70, i / 3));  // three each with one beginning
      const Tokens own = fake::random_tokens(10 + 13 * i, 10 + i);
      prompts.back().insert(prompts.back().end(), own.begin(), own.end());
    }
    std::vector<Tokens> alone;
    for (const Tokens& prompt : prompts) {
      const auto scheduler = Scheduler::start(*model, {});
      ASSERT_TRUE(scheduler);
      alone.push_back(run(**scheduler, {prompt})[0]->tokens);
      ASSERT_EQ(alone.back().size(), 24U);
    }
    const auto scheduler = Scheduler::start(*model, {.running = 5});
    ASSERT_TRUE(scheduler);
    std::uint32_t reused = 0;
    for (int round = 0; round < 3; ++round) {
      const auto all = run(**scheduler, prompts);
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i]->tokens, alone[i]) << name << " " << i << " in round " << round;
        reused += all[i]->end.reused_tokens;
      }
      std::ranges::reverse(prompts);
      std::ranges::reverse(alone);
    }
    EXPECT_GT(reused, 6 * 64U) << name;
  }
}

}  // namespace
}  // namespace orrery::engine
