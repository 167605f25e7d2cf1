#include "engine/generate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <thread>

#include "engine/fake_backend.hpp"
#include "engine/fake_tokenizer.hpp"

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

std::vector<std::string> alphabet() {
  std::vector<std::string> pieces;
  for (std::uint32_t i = 0; i + 1 < fake::kVocab; ++i)
    pieces.emplace_back(1, static_cast<char>(' ' + i % 94));
  pieces.emplace_back("<end>");
  return pieces;
}

class GenerateTest : public testing::Test {
 protected:
  static constexpr text::TokenId kEnd = fake::kVocab - 1;

  Sampler greedy(std::vector<std::pair<text::TokenId, float>> bias = {}) {
    SamplerParams params;
    params.temperature = 0;
    params.logit_bias = std::move(bias);
    return std::move(*Sampler::create(params, fake::kVocab, 300));
  }
  Generation run(const Tokens& prompt, Sampler sampler, GenerateOptions options) {
    options.on_text = [&](std::string_view piece) {
      text.append(piece);
      return true;
    };
    auto result = generate(*session, tokenizer, sampler, prompt, options);
    EXPECT_TRUE(result.has_value());
    return *result;
  }
  // What argmax must give after `tokens`.
  static text::TokenId next(const Tokens& tokens) {
    const std::uint64_t hash = fake::expected_hash(tokens);
    std::uint32_t best = 0;
    for (std::uint32_t v = 1; v < kEnd; ++v) {
      if (fake::logit(hash, v) > fake::logit(hash, best)) best = v;
    }
    return static_cast<text::TokenId>(best);
  }

  fake::Backend backend;
  fake::Tokenizer tokenizer{alphabet()};
  std::shared_ptr<Executor> executor = fake::make_executor(backend, 300, 1);
  std::unique_ptr<Session> session = *Session::open(executor);
  std::pair<text::TokenId, float> no_end{kEnd, -INFINITY};
  std::string text;
};

// Whoever asks for the executor while a long prompt is read gets it before the prompt's end.
TEST_F(GenerateTest, GivesItsTurnBackBetweenSlices) {
  const Tokens prompt(290, 7);  // in slices of 48
  std::atomic<bool> stops{false};
  std::atomic<int> runs_seen{0};  // of layers, when the other had its turn
  std::set<int> seen;
  std::thread other([&] {
    while (!stops) {
      const auto turn = executor->turn();
      seen.insert(backend.faults.runs - runs_seen);
    }
  });
  // Once is enough; each prompt is a new chance for a thread that the system has set aside.
  GenerateOptions options;
  options.max_tokens = 1;
  const auto in_between = [&] {
    const auto turn = executor->turn();
    return std::ranges::any_of(seen, [](int runs) { return runs > 0 && runs < 6; });
  };
  for (int tries = 0; tries < 10'000 && !in_between(); ++tries) {
    {
      const auto turn = executor->turn();
      session->clear();
      runs_seen = backend.faults.runs;
    }
    run(prompt, greedy({no_end}), options);
  }
  stops = true;
  other.join();
  EXPECT_TRUE(in_between());
}

TEST_F(GenerateTest, GreedyTokensAndTheirText) {
  const Tokens prompt{1, 2, 3, 4, 5};
  GenerateOptions options;
  options.max_tokens = 100;
  const Generation result = run(prompt, greedy({no_end}), options);
  EXPECT_EQ(result.finish, FinishReason::length);
  ASSERT_EQ(result.tokens.size(), 100U);
  Tokens all = prompt;
  for (const text::TokenId token : result.tokens) {
    ASSERT_EQ(token, next(all));
    all.push_back(token);
  }
  EXPECT_EQ(text, tokenizer.decode(result.tokens, false));
  EXPECT_EQ(result.prompt_tokens, 5U);
  EXPECT_EQ(result.reused_tokens, 0U);
  EXPECT_GE(result.first_token_seconds, result.prefill_seconds);

  text.clear();
  const Generation again = run(all, greedy({no_end}), options);
  EXPECT_EQ(again.reused_tokens, 104U);
}

TEST_F(GenerateTest, EndOfTurnIsNoText) {
  const Generation result = run({1, 2}, greedy({{kEnd, 1000.0F}}), {});
  EXPECT_EQ(result.finish, FinishReason::end_of_turn);
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_EQ(text, "");
  GenerateOptions options;
  options.ignore_end = true;
  options.max_tokens = 3;
  EXPECT_EQ(run({1, 2}, greedy({{kEnd, 1000.0F}}), options).tokens, (Tokens{kEnd, kEnd, kEnd}));
  EXPECT_EQ(text, "");
}

TEST_F(GenerateTest, StopStringsEndTheText) {
  GenerateOptions options;
  options.max_tokens = 50;
  run({7}, greedy({no_end}), options);
  const std::string whole = text;
  text.clear();
  options.stop = {whole.substr(20, 3)};
  const Generation result = run({7}, greedy({no_end}), options);
  EXPECT_EQ(result.finish, FinishReason::stop_string);
  EXPECT_EQ(text, whole.substr(0, whole.find(options.stop[0])));
}

TEST_F(GenerateTest, FullContextEndsOrShifts) {
  const Generation full = run({1, 2, 3}, greedy({no_end}), {});
  EXPECT_EQ(full.finish, FinishReason::context);
  EXPECT_EQ(full.tokens.size(), 298U);  // the last one is sampled and not evaluated
  GenerateOptions options;
  options.overflow = Overflow::shift;
  options.keep = 2;
  options.max_tokens = 700;
  const Generation shifted = run({1, 2, 3}, greedy({no_end}), options);
  EXPECT_EQ(shifted.finish, FinishReason::length);
  EXPECT_EQ(shifted.tokens.size(), 700U);
  SamplerParams params;
  params.temperature = 0;
  Sampler sampler = std::move(*Sampler::create(params, fake::kVocab, 300));
  EXPECT_EQ(generate(*session, tokenizer, sampler, Tokens(301, 1), {}).error().kind, "E_CONTEXT");
}

TEST_F(GenerateTest, FlagAndCallbackCancel) {
  std::atomic<bool> cancel = false;
  int tokens = 0;
  GenerateOptions options;
  options.cancel = &cancel;
  options.on_token = [&](text::TokenId, const Sampler&) { cancel = ++tokens == 5; };
  EXPECT_EQ(run({1}, greedy({no_end}), options).finish, FinishReason::cancelled);
  EXPECT_EQ(tokens, 5);
  Sampler sampler = greedy({no_end});
  options = {};
  options.on_text = [](std::string_view) { return false; };
  const auto result = generate(*session, tokenizer, sampler, Tokens{1}, options);
  EXPECT_EQ(result->finish, FinishReason::cancelled);
  EXPECT_EQ(result->tokens.size(), 1U);
}

TEST_F(GenerateTest, CharactersComeWhole) {
  // Tokens 0 and 1 are the halves of one character; the bias makes the answer repeat them.
  std::vector<std::string> pieces = alphabet();
  pieces[0] = "\xC3";
  pieces[1] = "\xA9";
  const fake::Tokenizer halves(pieces);
  SamplerParams params;
  params.seed = 3;
  params.logit_bias = {{0, 1000.0F}, {1, 1000.0F}};
  params.repeat_penalty = 1.0F;
  Sampler sampler = std::move(*Sampler::create(params, fake::kVocab, 300));
  GenerateOptions options;
  options.max_tokens = 60;
  options.on_text = [&](std::string_view piece) {
    EXPECT_NE(piece, "\xC3");
    EXPECT_NE(piece, "\xA9");
    text.append(piece);
    return true;
  };
  ASSERT_TRUE(generate(*session, halves, sampler, Tokens{1}, options).has_value());
  EXPECT_NE(text.find("\xC3\xA9"), std::string::npos);
}

}  // namespace
}  // namespace orrery::engine
