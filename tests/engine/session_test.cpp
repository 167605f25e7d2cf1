#include "engine/session.hpp"

#include <gtest/gtest.h>

#include "engine/fake_backend.hpp"
#include "engine/random.hpp"

namespace orrery::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

Tokens random_tokens(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  Tokens tokens(n);
  for (auto& token : tokens) token = static_cast<text::TokenId>(random.next() % fake::kVocab);
  return tokens;
}

void expect_logits(std::span<const float> logits, std::span<const text::TokenId> tokens) {
  const std::uint64_t hash = fake::expected_hash(tokens);
  ASSERT_EQ(logits.size(), fake::kVocab);
  for (std::uint32_t v = 0; v < fake::kVocab; ++v) ASSERT_EQ(logits[v], fake::logit(hash, v));
}

class SessionTest : public testing::Test {
 protected:
  std::unique_ptr<Session> open() {
    auto session = Session::open(executor);
    EXPECT_TRUE(session.has_value());
    return std::move(*session);
  }
  fake::Backend backend;
  std::shared_ptr<Executor> executor = fake::make_executor(backend, 600, 4);
};

TEST_F(SessionTest, ReusesTheLongestCommonPrefix) {
  auto session = open();
  Tokens tokens = random_tokens(130, 1);
  auto first = session->evaluate(tokens);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->reused, 0U);
  EXPECT_EQ(first->computed, 130U);
  expect_logits(first->logits, tokens);

  auto again = session->evaluate(tokens);  // the last token always runs
  EXPECT_EQ(again->reused, 129U);
  EXPECT_EQ(again->computed, 1U);
  expect_logits(again->logits, tokens);

  tokens.push_back(5);
  auto longer = session->evaluate(tokens);
  EXPECT_EQ(longer->reused, 130U);
  expect_logits(longer->logits, tokens);

  tokens[120] = (tokens[120] + 1) % 97;
  auto changed = session->evaluate(tokens);
  EXPECT_EQ(changed->reused, 120U);
  EXPECT_EQ(changed->computed, 11U);
  expect_logits(changed->logits, tokens);

  const Tokens shorter(tokens.begin(), tokens.begin() + 100);
  auto cut = session->evaluate(shorter);
  EXPECT_EQ(cut->reused, 99U);
  expect_logits(cut->logits, shorter);
}

TEST_F(SessionTest, WindowThatWasDroppedIsComputedAgain) {
  auto session = open();
  const Tokens tokens = random_tokens(500, 2);
  ASSERT_TRUE(session->evaluate(tokens).has_value());
  const Tokens prefix(tokens.begin(), tokens.begin() + 150);
  auto result = session->evaluate(prefix);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->reused, 0U);
  expect_logits(result->logits, prefix);
}

TEST_F(SessionTest, RandomEditsAlwaysGiveTheLogitsOfTheList) {
  auto session = open();
  Random random(3);
  Tokens tokens = random_tokens(10, 4);
  for (int step = 0; step < 400; ++step) {
    const std::uint64_t action = random.next() % 8;
    if (action == 0) tokens.resize(1 + random.next() % tokens.size());
    if (action == 1) tokens[random.next() % tokens.size()] = 7;
    if (action == 2) {
      const Tokens more = random_tokens(random.next() % 150, random.next());
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    tokens.push_back(static_cast<text::TokenId>(random.next() % fake::kVocab));
    if (tokens.size() > 600) tokens.resize(300);
    auto result = session->evaluate(tokens);
    ASSERT_TRUE(result.has_value());
    ASSERT_EQ(result->reused + result->computed, tokens.size());
    expect_logits(result->logits, tokens);
  }
}

TEST_F(SessionTest, BatchOfThreeEqualsEachAlone) {
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Session*> pointers;
  std::vector<Tokens> lists;
  for (std::size_t i = 0; i < 3; ++i) {
    sessions.push_back(open());
    pointers.push_back(sessions.back().get());
    lists.push_back(random_tokens(50 + 77 * i, 10 + i));
    ASSERT_TRUE(sessions[i]->evaluate(lists[i]).has_value());
  }
  for (int step = 0; step < 200; ++step) {
    const Tokens next = random_tokens(3, static_cast<std::uint64_t>(step));
    ASSERT_TRUE(decode_batch(pointers, next).has_value());
    for (std::size_t i = 0; i < 3; ++i) {
      lists[i].push_back(next[i]);
      expect_logits(executor->logits(i), lists[i]);
    }
  }
}

TEST_F(SessionTest, BadTokensAreErrors) {
  auto session = open();
  EXPECT_EQ(session->evaluate({}).error().kind, "E_TOKENS");
  EXPECT_EQ(session->evaluate(Tokens{1, -1}).error().kind, "E_TOKENS");
  EXPECT_EQ(session->evaluate(Tokens{1, 97}).error().kind, "E_TOKENS");
}

TEST_F(SessionTest, OverflowIsAnErrorOrShifts) {
  auto session = open();
  Tokens tokens = random_tokens(601, 5);
  EXPECT_EQ(session->evaluate(tokens).error().kind, "E_CONTEXT");
  EvaluateOptions options;
  options.overflow = Overflow::shift;
  options.keep = 20;
  std::uint32_t dropped = 0;
  int recomputed = 0;
  for (int step = 0; step < 700; ++step) {
    auto result = session->evaluate(tokens, options);
    ASSERT_TRUE(result.has_value());
    Tokens effective(tokens.begin(), tokens.begin() + 20);
    effective.insert(effective.end(), tokens.begin() + 20 + result->dropped, tokens.end());
    ASSERT_LE(effective.size(), 600U);
    expect_logits(result->logits, effective);
    recomputed += result->computed > 1;
    ASSERT_GE(result->dropped, dropped);
    dropped = result->dropped;
    tokens.push_back(static_cast<text::TokenId>(step % 97));
  }
  EXPECT_EQ(recomputed, 3);  // at 601, 891 and 1181 tokens
}

TEST_F(SessionTest, CancelKeepsWhatWasComputed) {
  auto session = open();
  const Tokens tokens = random_tokens(200, 6);
  std::atomic<bool> cancel = false;
  EvaluateOptions options;
  options.cancel = &cancel;
  options.progress = [&](std::uint32_t done, std::uint32_t all) {
    EXPECT_EQ(all, 200U);
    cancel = done >= 96;
  };
  EXPECT_EQ(session->evaluate(tokens, options).error().kind, "E_CANCELLED");
  auto rest = session->evaluate(tokens);
  EXPECT_EQ(rest->reused, 96U);
  expect_logits(rest->logits, tokens);
}

TEST_F(SessionTest, FailedRunLeavesTheSessionUsable) {
  auto session = open();
  Tokens tokens = random_tokens(100, 7);
  backend.faults.fail_run = 1;
  EXPECT_EQ(session->evaluate(tokens).error().kind, "E_FAKE");
  EXPECT_EQ(session->held().size(), 48U);
  auto result = session->evaluate(tokens);
  EXPECT_EQ(result->reused, 48U);
  expect_logits(result->logits, tokens);
  backend.faults.fail_run = backend.faults.runs;
  tokens.push_back(1);
  EXPECT_EQ(session->evaluate(tokens).error().kind, "E_FAKE");
  result = session->evaluate(tokens);
  EXPECT_EQ(result->computed, 1U);
  expect_logits(result->logits, tokens);
}

TEST_F(SessionTest, ClosedSessionsGiveTheirPagesBack) {
  for (int i = 0; i < 10; ++i) {
    auto a = open();
    auto b = open();
    ASSERT_TRUE(a->evaluate(random_tokens(300, 8)).has_value());
    ASSERT_TRUE(b->evaluate(random_tokens(300, 9)).has_value());
  }
  EXPECT_EQ(executor->kv().pages_in_use(0), 0U);
}

TEST_F(SessionTest, StreamGivesEveryPositionOnce) {
  auto session = open();
  const Tokens tokens = random_tokens(203, 11);
  for (const std::uint32_t first : {0U, 1U, 60U, 202U}) {
    auto stream = LogitStream::open(*session, tokens, first);
    ASSERT_TRUE(stream.has_value());
    std::uint32_t position = first;
    for (;;) {
      auto rows = stream->next(position % 2 == 0 ? 3 : UINT32_MAX);
      ASSERT_TRUE(rows.has_value());
      if (rows->count == 0) break;
      ASSERT_EQ(rows->position, position);
      for (std::uint32_t i = 0; i < rows->count; ++i, ++position) {
        expect_logits({rows->logits + i * fake::kVocab, fake::kVocab},
                      std::span(tokens).first(position + 1));
      }
    }
    EXPECT_EQ(position, 203U);
  }
}

}  // namespace
}  // namespace orrery::engine
