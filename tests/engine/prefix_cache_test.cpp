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

TEST_F(PrefixCacheTest, AWishedSlotIsTakenWhereItIsIdleAndMine) {
  make(4);
  const auto take = [&](const Tokens& tokens, std::string_view domain, Wish wish) {
    Session* const session = cache->take(tokens, domain, wish);
    EXPECT_TRUE(session->evaluate(tokens));
    return session;
  };
  const auto finish_in = [&](const Tokens& tokens, std::string_view domain, std::uint32_t slot) {
    Session* const session = take(tokens, domain, {.slot = slot});
    cache->give_back(session, true);
    return cache->slot_of(session);
  };
  EXPECT_EQ(finish_in(a, "x", 2), 2U);
  EXPECT_EQ(finish_in(b, "x", 2), 2U);  // in the place of the text before it
  EXPECT_EQ(cache->reusable(a, "x"), 0U);
  EXPECT_NE(finish_in(a, "y", 2), 2U);  // another owner's
  EXPECT_EQ(cache->reusable(b, "x"), 149U);
  EXPECT_EQ(finish_in(a, "x\nadapters", 2), 2U);  // the same owner's
  EXPECT_EQ(cache->reusable(b, "x"), 0U);
  EXPECT_EQ(cache->reusable(a, "x"), 0U);  // adapters have a part in it
  // What another slot has is shared into the wished one.
  finish_in(a, "z", 0);
  Session* const shares = cache->take(join(a, 5, 9), "z", {.slot = 3});
  EXPECT_EQ(cache->slot_of(shares), 3U);
  EXPECT_EQ(shares->held().size(), 192U);
  // A busy one, and one that is not there, are passed over.
  for (const std::uint32_t slot : {3U, 4U, 4'000'000'000U}) {
    Session* const other = cache->take(b, "z", {.slot = slot});
    ASSERT_NE(other, nullptr);
    EXPECT_NE(other, shares);
    cache->give_back(other, true);
  }
}

TEST_F(PrefixCacheTest, NothingIsReusedOnDemand) {
  make(1);
  finish(a);
  Session* const session = cache->take(a, "", {.reuses = false});
  EXPECT_TRUE(session->held().empty());
}

TEST_F(PrefixCacheTest, WhatIsSetAsideIsNobodyElses) {
  make(2);
  finish(a, "x");
  EXPECT_EQ(cache->set_aside(0, "y").error().kind, "E_SLOT");
  EXPECT_EQ(cache->set_aside(2, "x").error().kind, "E_SLOT");
  Session* const session = *cache->set_aside(0, "x");
  EXPECT_TRUE(std::ranges::equal(session->held(), a));
  EXPECT_EQ(cache->set_aside(0, "x").error().kind, "E_INUSE");
  EXPECT_EQ(cache->reusable(a, "x"), 0U);
  EXPECT_EQ(cache->view("x")[0].session, nullptr);
  EXPECT_TRUE(cache->view("x")[0].is_busy);
  EXPECT_NE(run(a, "x"), session);
  EXPECT_FALSE(cache->evict());
  cache->put_back(session, "x");
  EXPECT_EQ(cache->reusable(a, "x"), 199U);
  EXPECT_TRUE(cache->view("y")[0].is_foreign);
  // An empty one is anybody's, and what is put into it is its new owner's.
  ASSERT_EQ(*cache->set_aside(0, "x"), session);
  session->clear();
  cache->put_back(session, "x");
  ASSERT_EQ(*cache->set_aside(0, "y"), session);
  EXPECT_TRUE(session->evaluate(b));
  cache->put_back(session, "y");
  EXPECT_EQ(cache->reusable(b, "y"), 149U);
  EXPECT_EQ(cache->reusable(b, "x"), 0U);
}

}  // namespace
}  // namespace orrery::engine
