#include "engine/prefix_cache.hpp"

#include <gtest/gtest.h>

#include "engine/scheduler_fixture.hpp"

namespace orrery::engine {
namespace {

using fake::Tokens;

class PrefixCacheTest : public testing::Test {
 protected:
  void make(std::uint32_t sequences, std::uint32_t window = 1000) {
    executor = fake::make_executor(backend, 600, sequences, 1 << 20, window);
    cache.emplace(executor);
  }
  // Takes a session for the tokens and computes them.
  Session* run(const Tokens& tokens, std::string_view domain = "") {
    Session* const session = cache->take(tokens, domain);
    if (session == nullptr) return nullptr;
    reused = static_cast<std::uint32_t>(session->held().size());
    EXPECT_TRUE(session->evaluate(tokens));
    return session;
  }
  void finish(const Tokens& tokens, std::string_view domain = "") {
    cache->give_back(run(tokens, domain), true);
  }
  static Tokens join(Tokens tokens, std::size_t n, std::uint64_t seed) {
    const Tokens more = fake::random_tokens(n, seed);
    tokens.insert(tokens.end(), more.begin(), more.end());
    return tokens;
  }

  fake::Backend backend;
  std::shared_ptr<Executor> executor;
  std::optional<PrefixCache> cache;
  std::uint32_t reused = 0;
  const Tokens a = fake::random_tokens(200, 1), b = fake::random_tokens(150, 2);
};

TEST_F(PrefixCacheTest, TheLongestPrefixGoesOn) {
  make(4);
  finish(a);
  finish(b);
  EXPECT_EQ(cache->idle(), 2U);
  EXPECT_EQ(cache->reusable(join(a, 9, 5), ""), 200U);
  finish(join(a, 9, 5));
  EXPECT_EQ(reused, 200U);
  EXPECT_EQ(cache->idle(), 2U);  // the same sequence
  finish(b);
  EXPECT_EQ(reused, 149U);  // the last token runs again
  EXPECT_EQ(cache->reusable(fake::random_tokens(9, 7), ""), 0U);
}

TEST_F(PrefixCacheTest, ALongTailIsNotCutOff) {
  make(4);
  finish(join(a, 300, 3));
  finish(join(a, 40, 4));
  EXPECT_EQ(reused, 192U);  // whole pages, shared
  EXPECT_EQ(cache->idle(), 2U);
  finish(join(join(a, 300, 3), 1, 9));
  EXPECT_EQ(reused, 500U);
}

TEST_F(PrefixCacheTest, RunningSequencesSharePages) {
  make(2);
  const Session* const first = run(join(a, 50, 3));
  const Session* const second = run(join(a, 50, 4));
  EXPECT_EQ(reused, 192U);
  EXPECT_EQ(cache->take(a, ""), nullptr);  // all are in use
  cache->give_back(first, false);
  cache->give_back(second, true);
  EXPECT_EQ(cache->idle(), 1U);
}

TEST_F(PrefixCacheTest, TheOldestMakesPlace) {
  make(2);
  finish(a);
  finish(b);
  finish(a);
  finish(fake::random_tokens(100, 9));  // in the place of b
  EXPECT_EQ(reused, 0U);
  EXPECT_EQ(cache->reusable(b, ""), 0U);
  EXPECT_EQ(cache->reusable(a, ""), 199U);
  EXPECT_TRUE(cache->evict());
  EXPECT_EQ(cache->reusable(a, ""), 0U);
  EXPECT_TRUE(cache->evict());
  EXPECT_FALSE(cache->evict());
  EXPECT_EQ(executor->kv().pages_in_use(0), 0U);
}

TEST_F(PrefixCacheTest, DomainsAreApart) {
  make(2);
  finish(a, "x");
  EXPECT_EQ(cache->reusable(a, "y"), 0U);
  finish(a, "y");
  EXPECT_EQ(reused, 0U);
  finish(b, "y");  // in the place of x's
  finish(a, "x");
  EXPECT_EQ(reused, 0U);
}

TEST_F(PrefixCacheTest, OneSequenceAloneIsCutWhereListsPart) {
  make(1);
  finish(join(a, 300, 3));
  finish(join(a, 3, 4));
  EXPECT_EQ(reused, 200U);
}

TEST_F(PrefixCacheTest, WhatAWindowHasLeftIsComputedAgain) {
  make(2, fake::kWindow);
  finish(join(a, 300, 3));
  finish(join(a, 3, 4));
  EXPECT_EQ(reused, 0U);
  finish(join(a, 30, 4));  // begins with the three
  EXPECT_EQ(reused, 203U);
}

}  // namespace
}  // namespace orrery::engine
