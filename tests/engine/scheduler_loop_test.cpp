// The scheduler tick by tick, with a clock of the test's own.
#include "engine/scheduler_loop.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/generate.hpp"
#include "engine/scheduler_loop_fixture.hpp"

namespace orrery::engine {
namespace {

using fake::Recorder;
using fake::SchedulerLoopTest;
using fake::Tokens;

TEST_F(SchedulerLoopTest, AnswersAreThoseOfARequestAlone) {
  make(600, 16, 12);  // a batch has 8 rows
  std::vector<std::shared_ptr<Recorder>> all;
  std::vector<Tokens> prompts;
  for (std::size_t i = 0; i < 30; ++i) {
    prompts.push_back(fake::random_tokens(1 + i * 7, i));
    all.push_back(submit(fake::greedy(prompts.back(), 20)));
  }
  run_all();
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]->tokens, fake::greedy_answer(prompts[i], 20)) << i;
    EXPECT_EQ(all[i]->text, tokenizer.decode(all[i]->tokens, false));
    EXPECT_EQ(all[i]->end.finish, FinishReason::length);
    EXPECT_EQ(all[i]->end.prompt_tokens, prompts[i].size());
    EXPECT_EQ(all[i]->end.new_tokens, 20U);
    EXPECT_EQ(all[i]->done, all[i]->total);
    EXPECT_EQ(all[i]->ends, 1);
  }
  EXPECT_EQ(loop->stats().new_tokens, 600U);
  expect_no_pages();
}

TEST_F(SchedulerLoopTest, CountsItsStepsAndWhatTheyCost) {
  make(600, 4, 2);
  const auto answer = [&](std::size_t prompt, std::uint32_t tokens) {
    const auto events = submit(fake::greedy(fake::random_tokens(prompt, 3), tokens));
    run_all();
    EXPECT_EQ(events->end.new_tokens, tokens);
  };
  const auto total = [](const StepTimes& times) {
    return std::accumulate(times.counts.begin(), times.counts.end(), std::uint64_t{0});
  };
  backend.faults.on_run = [this](const backend::Batch&) { now += 0.015; };
  answer(100, 5);
  SchedulerStats stats = loop->stats();
  EXPECT_EQ(total(stats.prompt_steps), stats.prefill_slices);
  EXPECT_EQ(stats.prefill_slices, 3U);  // 48, 48, 4
  EXPECT_EQ(total(stats.decode_steps), 4U);
  EXPECT_EQ(stats.decode_steps.counts[4], 4U);  // above 0.01, at most 0.02
  EXPECT_NEAR(stats.decode_steps.seconds, 0.06, 1e-9);
  EXPECT_NEAR(stats.prompt_steps.seconds, 0.045, 1e-9);
  // The table is read as rows by the embedding and as a whole by the head; a row's product is two
  // operations for each of its elements.
  const double row = 32 * 4, table = row * fake::kVocab;
  EXPECT_EQ(stats.read_bytes, 104 * row + 5 * table);
  EXPECT_EQ(stats.operations, 5 * 2.0 * 32 * fake::kVocab);
  EXPECT_GT(stats.recent_decode_bytes, 3.5 * table);
  EXPECT_LT(stats.recent_decode_bytes, 4 * (table + row));
  now += 100;
  loop->tick();  // there is nothing to do
  EXPECT_EQ(total(loop->stats().decode_steps), 4U);
  backend.faults.on_run = [this](const backend::Batch&) { now += 60; };
  answer(1, 2);  // a prompt of one token is decoded
  EXPECT_EQ(loop->stats().decode_steps.counts.back(), 2U);
}

// Sampling, stop strings, ends, shifts and full contexts: the same tokens as generate() gives.
TEST_F(SchedulerLoopTest, ManyKindsOfRequestsAnswerAsGenerate) {
  make(200, 9, 6);
  Random random(5);
  for (int round = 0; round < 8; ++round) {
    std::vector<std::shared_ptr<Recorder>> all;
    std::vector<GenerateOptions> options;
    std::vector<SamplerParams> params;
    std::vector<Tokens> prompts;
    for (std::uint64_t i = 0; i < 6; ++i) {
      Request request;
      request.prompt = fake::random_tokens(1 + random.next() % 190, random.next());
      request.sampling.seed = random.next();
      request.sampling.n_logprobs = 2;
      request.sampling.repeat_penalty = 1.1F;
      request.max_tokens = i % 2 == 0 ? 0 : 150;
      request.stop = {"ab", std::string(1, static_cast<char>('!' + round)) + "x"};
      request.ignore_end = i % 3 == 0;
      const bool shifts = i % 2 == 1;
      request.overflow = shifts ? Overflow::shift : Overflow::error;
      request.keep = 5;
      prompts.push_back(request.prompt);
      params.push_back(request.sampling);
      GenerateOptions& alone = options.emplace_back();
      alone.max_tokens = request.max_tokens;
      alone.stop = request.stop;
      alone.overflow = request.overflow;
      alone.keep = request.keep;
      alone.ignore_end = request.ignore_end;
      all.push_back(submit(std::move(request)));
    }
    run_all();
    const auto session = *Session::open(fake::make_executor(backend, 200, 1));
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::string text;
      options[i].on_text = [&](std::string_view piece) {
        text.append(piece);
        return true;
      };
      Sampler sampler = *Sampler::create(params[i], fake::kVocab, 200);
      const auto alone = generate(*session, tokenizer, sampler, prompts[i], options[i]);
      ASSERT_TRUE(alone);
      EXPECT_EQ(all[i]->tokens, alone->tokens);
      EXPECT_EQ(all[i]->text, text);
      EXPECT_EQ(finish_name(all[i]->end.finish), finish_name(alone->finish));
      EXPECT_EQ(all[i]->end.stop_string.empty(), alone->finish != FinishReason::stop_string);
      if (alone->tokens.empty()) continue;
      EXPECT_EQ(all[i]->n_logprobs, 2U);
      EXPECT_EQ(all[i]->chosen.back().id, alone->tokens.back());
    }
  }
}

TEST_F(SchedulerLoopTest, PromptsLongerThanTheContextAreShifted) {
  make(200, 2, 2);
  const Tokens prompt = fake::random_tokens(450, 1);
  Request request = fake::greedy(prompt, 5);
  request.overflow = Overflow::shift;
  request.keep = 10;
  const auto events = submit(std::move(request));
  run_all();
  const std::size_t dropped = 285;  // three times half of 190
  Tokens left(prompt.begin(), prompt.begin() + 10);
  left.insert(left.end(), prompt.begin() + 10 + static_cast<std::ptrdiff_t>(dropped), prompt.end());
  EXPECT_EQ(events->tokens, fake::greedy_answer(left, 5));
}

// One token at a time through several contexts, without a slice of prompt, and the next turn.
TEST_F(SchedulerLoopTest, FullContextsRoll) {
  make(400, 2, 2);
  Tokens list = fake::random_tokens(150, 1);
  Tokens turn = list;
  for (const std::uint32_t n : {1000U, 30U}) {
    Request request = fake::greedy(turn, n);
    request.overflow = Overflow::roll;
    const std::uint64_t slices = loop->stats().prefill_slices;
    const auto events = submit(std::move(request));
    run_all();
    ASSERT_EQ(events->tokens.size(), n);
    for (const text::TokenId token : events->tokens) {
      while (list.size() > 400) list.erase(list.begin() + 64, list.begin() + 64 + 128);
      ASSERT_EQ(token, fake::greedy_answer(list, 1)[0]);
      list.push_back(token);
    }
    EXPECT_EQ(loop->stats().prefill_slices - slices, n == 1000 ? 4U : 1U);
    turn.insert(turn.end(), events->tokens.begin(), events->tokens.end());
    turn.push_back(5);
    list.push_back(5);
  }
}

TEST_F(SchedulerLoopTest, TheNextTurnComputesWhatIsNew) {
  make(600, 3, 2);
  Tokens turn = fake::random_tokens(150, 1);
  const auto first = submit(fake::greedy(turn, 30));
  run_all();
  EXPECT_EQ(first->end.reused_tokens, 0U);
  turn.insert(turn.end(), first->tokens.begin(), first->tokens.end());
  const Tokens more = fake::random_tokens(40, 2);
  turn.insert(turn.end(), more.begin(), more.end());
  const auto second = submit(fake::greedy(turn, 10));
  run_all();
  EXPECT_EQ(second->end.reused_tokens, 179U);  // the last token was not evaluated
  EXPECT_EQ(second->total, 41U);
  EXPECT_EQ(second->tokens, fake::greedy_answer(turn, 10));
  EXPECT_EQ(loop->stats().reused_tokens, 179U);
}

TEST_F(SchedulerLoopTest, DomainsShareNothing) {
  make(600, 3, 3);
  const Tokens prompt = fake::random_tokens(150, 1);
  for (const char* domain : {"a", "b", "c", "d", "a"}) {
    Request request = fake::greedy(prompt, 4);
    request.domain = domain;
    const auto events = submit(std::move(request));
    run_all();
    EXPECT_EQ(events->end.reused_tokens, 0U) << domain;  // of a nothing is left in the end
    EXPECT_EQ(events->tokens, fake::greedy_answer(prompt, 4));
  }
  // At once, too.
  std::vector<std::shared_ptr<Recorder>> all;
  for (const char* domain : {"e", "f"}) {
    Request request = fake::greedy(prompt, 4);
    request.domain = domain;
    all.push_back(submit(std::move(request)));
  }
  run_all();
  for (const auto& events : all) EXPECT_EQ(events->end.reused_tokens, 0U);
}

TEST_F(SchedulerLoopTest, RequestsThatComeTogetherComputeTheirPrefixOnce) {
  make(600, 6, 4);
  const Tokens system = fake::random_tokens(260, 1);
  std::vector<std::shared_ptr<Recorder>> all;
  std::vector<Tokens> prompts;
  for (std::uint64_t i = 0; i < 4; ++i) {
    Tokens prompt = system;
    const Tokens own = fake::random_tokens(20, 10 + i);
    prompt.insert(prompt.end(), own.begin(), own.end());
    prompts.push_back(prompt);
    all.push_back(submit(fake::greedy(prompt, 5)));
  }
  run_all();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i]->end.reused_tokens, i == 0 ? 0U : 256U);
    EXPECT_EQ(all[i]->tokens, fake::greedy_answer(prompts[i], 5));
  }
  expect_no_pages();
}

TEST_F(SchedulerLoopTest, MoreStreamsThanRowsTakeTurns) {
  make(600, 16, 16);
  std::vector<std::shared_ptr<Recorder>> all;
  for (std::uint64_t i = 0; i < 12; ++i) {
    all.push_back(submit(fake::greedy(fake::random_tokens(5, i), 0)));
  }
  for (int i = 0; i < 200; ++i) loop->tick();
  const auto [least, most] =
      std::ranges::minmax(all, {}, [](const auto& events) { return events->tokens.size(); });
  EXPECT_GT(least->tokens.size(), 100U);
  EXPECT_LE(most->tokens.size() - least->tokens.size(), 12U);
}

TEST_F(SchedulerLoopTest, CancelledInEachPhase) {
  make(600, 3, 2);
  const auto decoding = submit(fake::greedy(fake::random_tokens(5, 1), 0));
  loop->tick();
  loop->tick();
  const auto filling = submit(fake::greedy(fake::random_tokens(500, 2), 0));
  const auto queued = submit(fake::greedy(fake::random_tokens(5, 3), 0));
  loop->tick();
  EXPECT_GT(decoding->tokens.size(), 0U);
  EXPECT_GT(filling->done, 0U);
  for (RequestId id = 1; id <= 3; ++id) cancel(id);
  const std::size_t tokens = decoding->tokens.size();
  loop->tick();
  EXPECT_FALSE(loop->has_work());
  EXPECT_EQ(decoding->tokens.size(), tokens);
  EXPECT_TRUE(queued->tokens.empty());
  for (const auto& events : {decoding, filling, queued}) {
    EXPECT_EQ(events->ends, 1);
    EXPECT_EQ(events->end.finish, FinishReason::cancelled);
    EXPECT_FALSE(events->end.error);
  }
  EXPECT_EQ(loop->stats().cancelled, 3U);
  // From within an event, too; and what was computed may be used.
  const auto again = submit(fake::greedy(fake::random_tokens(500, 2), 0));
  again->took = [&] { cancel(last_id); };
  run_all();
  EXPECT_EQ(again->tokens.size(), 1U);
  EXPECT_EQ(again->end.reused_tokens, std::min(filling->done, 499U));
  expect_no_pages();
}

TEST_F(SchedulerLoopTest, IdlePagesMakeRoomAndThenTheYoungest) {
  make(640, 6, 4, 24);  // a sequence of 640 tokens takes up to 14 of the pages
  const auto idle = submit(fake::greedy(fake::random_tokens(300, 1), 1));
  run_all();
  EXPECT_EQ(loop->stats().idle, 1U);
  std::vector<std::shared_ptr<Recorder>> all;
  std::vector<Tokens> prompts;
  for (std::uint64_t i = 0; i < 4; ++i) {
    prompts.push_back(fake::random_tokens(100, 10 + i));
    all.push_back(submit(fake::greedy(prompts.back(), 400)));
  }
  run_all();
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_FALSE(all[i]->end.error) << all[i]->end.error->message;
    EXPECT_EQ(all[i]->tokens, fake::greedy_answer(prompts[i], 400)) << i;
    EXPECT_EQ(all[i]->ends, 1);
  }
  EXPECT_GT(loop->stats().preempted, 0U);
  EXPECT_LE(loop->stats().cache_bytes, loop->stats().cache_budget_bytes);
  // The oldest never waits: it ends first.
  EXPECT_LT(all[0]->end.decode_seconds, 1.0);
  expect_no_pages();
}

TEST_F(SchedulerLoopTest, WhatDoesNotFitAloneIsAnError) {
  make(640, 3, 2, 10);
  const auto large = submit(fake::greedy(fake::random_tokens(600, 1), 1));
  run_all();
  ASSERT_TRUE(large->end.error);
  EXPECT_EQ(large->end.error->kind, "E_MEMORY");
  const auto small = submit(fake::greedy(fake::random_tokens(100, 1), 1));
  run_all();
  EXPECT_FALSE(small->end.error);
  expect_no_pages();
}

TEST_F(SchedulerLoopTest, AFailedRunEndsItsRequestsAndNoOthers) {
  make(600, 4, 4);
  const auto first = submit(fake::greedy(fake::random_tokens(5, 1), 0));
  const auto second = submit(fake::greedy(fake::random_tokens(6, 2), 0));
  for (int i = 0; i < 6; ++i) loop->tick();
  EXPECT_GT(second->tokens.size(), 0U);
  const Tokens prompt = fake::random_tokens(100, 3);
  const auto third = submit(fake::greedy(prompt, 3));
  backend.faults.fail_run = backend.faults.runs;  // the next decode batch
  run_all();
  for (const auto& events : {first, second}) {
    ASSERT_TRUE(events->end.error);
    EXPECT_EQ(events->end.error->kind, "E_FAKE");
  }
  EXPECT_FALSE(third->end.error);
  EXPECT_EQ(third->tokens, fake::greedy_answer(prompt, 3));
  EXPECT_EQ(loop->stats().failed, 2U);
  EXPECT_EQ(loop->stats().idle, 1U);  // what a failed run leaves is not kept
}

// Only tokens 10 to 19, each larger than the one before; the end after 15.
class Rising final : public text::Constraint {
 public:
  explicit Rising(bool ends) : ends_(ends) {}
  std::span<const std::uint32_t> allowed() override {
    EXPECT_FALSE(is_finished());  // no step for a text that is whole
    mask_.assign(4, 0);
    for (int token = last_ + 1; token < 20; ++token) set(token);
    if (ends_ && last_ >= 15) set(fake::kEnd);
    return mask_;
  }
  Status accept(text::TokenId token) override {
    if (token == fake::kEnd) return {};
    if (token <= last_ || token >= 20) return fail("E_GRAMMAR", "not allowed");
    last_ = token;
    return {};
  }
  bool is_finished() const override { return ends_ && last_ == 19; }

 private:
  void set(int token) { mask_[static_cast<std::size_t>(token) / 32] |= 1U << (token % 32); }
  bool ends_;
  int last_ = 9;
  std::vector<std::uint32_t> mask_;
};

TEST_F(SchedulerLoopTest, ConstraintsHold) {
  make(600, 5, 4);
  std::vector<std::shared_ptr<Recorder>> all;
  for (std::uint64_t i = 0; i < 40; ++i) {
    Request request;
    request.prompt = fake::random_tokens(20, i);
    request.sampling.seed = i;
    request.ignore_end = i % 4 == 0;
    request.constraint = std::make_unique<Rising>(i % 2 == 0);
    all.push_back(submit(std::move(request)));
  }
  run_all();
  bool ended_early = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tokens& tokens = all[i]->tokens;
    ASSERT_FALSE(tokens.empty());
    EXPECT_TRUE(std::ranges::is_sorted(tokens));
    for (const text::TokenId token : tokens) EXPECT_TRUE(token >= 10 && token < 20);
    if (i % 2 == 0) {
      EXPECT_FALSE(all[i]->end.error);
      EXPECT_EQ(all[i]->end.finish, FinishReason::end_of_turn);
      EXPECT_GE(tokens.back(), 15);
      ended_early |= tokens.back() < 19;
    } else {  // after 19 nothing can come
      ASSERT_TRUE(all[i]->end.error);
      EXPECT_EQ(all[i]->end.error->kind, "E_GRAMMAR");
      EXPECT_EQ(tokens.back(), 19);
    }
  }
  EXPECT_TRUE(ended_early);
}

TEST_F(SchedulerLoopTest, AThousandRequestsEndOnceAndLeaveNoPage) {
  make(640, 7, 5, 24);
  Random random(1);
  std::vector<std::shared_ptr<Recorder>> all;
  std::vector<Tokens> prompts;
  std::uint64_t finished = 0;
  while (all.size() < 1000 || loop->has_work()) {
    if (all.size() < 1000 && random.next() % 8 == 0) {
      // Of few beginnings, so that they share; some are longer than what memory holds for two.
      Tokens prompt = fake::random_tokens(random.next() % 4 * 70, random.next() % 3);
      const Tokens own = fake::random_tokens(1 + random.next() % 60, random.next());
      prompt.insert(prompt.end(), own.begin(), own.end());
      Request request = fake::greedy(prompt, 1 + static_cast<std::uint32_t>(random.next() % 40));
      request.domain = random.next() % 2 == 0 ? "a" : "b";
      prompts.push_back(std::move(prompt));
      all.push_back(submit(std::move(request)));
    }
    if (!all.empty() && random.next() % 40 == 0) {
      cancel(last_id - random.next() % std::min<RequestId>(last_id, 10));
    }
    loop->tick();
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i]->ends, 1) << i;
    ASSERT_EQ(ended[i + 1], 1) << i;
    ASSERT_FALSE(all[i]->end.error) << all[i]->end.error->message;
    ASSERT_EQ(all[i]->tokens, fake::greedy_answer(prompts[i], all[i]->tokens.size())) << i;
    finished += all[i]->end.finish == FinishReason::length ? 1 : 0;
  }
  const SchedulerStats stats = loop->stats();
  EXPECT_EQ(stats.cancelled + finished, 1000U);
  EXPECT_GT(stats.cancelled, 50U);
  EXPECT_GT(stats.preempted, 0U);
  EXPECT_GT(stats.reused_tokens, 1000U);
  expect_no_pages();
}

TEST_F(SchedulerLoopTest, AllEndWhenTheSchedulerDoes) {
  make(600, 2, 1);
  const auto running = submit(fake::greedy({1, 2}, 0));
  const auto waiting = submit(fake::greedy({1, 2}, 0));
  loop->tick();
  loop->tick();
  loop->end_all({"E_STOPPED", "stopped"});
  for (const auto& events : {running, waiting}) {
    EXPECT_EQ(events->ends, 1);
    EXPECT_EQ(events->end.error->kind, "E_STOPPED");
  }
  EXPECT_FALSE(loop->has_work());
  expect_no_pages();
}

}  // namespace
}  // namespace orrery::engine
