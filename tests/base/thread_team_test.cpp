#include "base/thread_team.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

namespace orrery {
namespace {

struct Shared {
  explicit Shared(int threads) : barrier(threads) {}
  Barrier barrier;
  std::array<int, 8> turns{};
  std::atomic<int> wrong{0};
};

TEST(ThreadTeam, RunsTheTaskOnEveryThreadOnce) {
  ThreadTeam team(4);
  ASSERT_EQ(team.size(), 4);
  std::array<int, 4> calls{};
  for (int i = 0; i < 100; ++i) {
    team.run([](void* c, int thread) { (*static_cast<std::array<int, 4>*>(c))[size_t(thread)]++; },
             &calls);
  }
  for (const int count : calls) EXPECT_EQ(count, 100);
}

TEST(ThreadTeam, BarrierOrdersPlainWritesOfAllThreads) {
  constexpr int kThreads = 3;
  ThreadTeam team(kThreads);
  Shared shared(kThreads);
  team.run(
      [](void* c, int thread) {
        Shared& s = *static_cast<Shared*>(c);
        for (int turn = 1; turn <= 2000; ++turn) {
          s.turns[size_t(thread)] = turn;
          s.barrier.wait();
          for (int i = 0; i < kThreads; ++i) {
            if (s.turns[size_t(i)] != turn) s.wrong++;
          }
          s.barrier.wait();
        }
      },
      &shared);
  EXPECT_EQ(shared.wrong.load(), 0);
}

TEST(ThreadTeam, OneThreadIsTheCaller) {
  ThreadTeam team(1);
  int thread_seen = -1;
  team.run([](void* c, int thread) { *static_cast<int*>(c) = thread; }, &thread_seen);
  EXPECT_EQ(thread_seen, 0);
}

TEST(ThreadTeam, ManyTeamsComeAndGo) {
  int total = 0;
  for (int i = 0; i < 50; ++i) {
    ThreadTeam team(2);
    std::array<int, 2> done{};
    team.run(
        [](void* c, int thread) { (*static_cast<std::array<int, 2>*>(c))[size_t(thread)] = 1; },
        &done);
    total += std::accumulate(done.begin(), done.end(), 0);
  }
  EXPECT_EQ(total, 100);
}

}  // namespace
}  // namespace orrery
