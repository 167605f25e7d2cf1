#include "base/fair_mutex.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace orrery {
namespace {

TEST(FairMutex, OneThreadAtATime) {
  FairMutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const std::lock_guard lock(mutex);
        ++count;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count, 2000);
}

// One thread takes it again at once; another, that waits for it meanwhile, comes before. Whether it
// waits already cannot be seen from outside, so not every round counts.
TEST(FairMutex, NobodyStarves) {
  constexpr int kRounds = 30;
  int passed = 0;
  for (int round = 0; round < kRounds; ++round) {
    FairMutex mutex;
    std::atomic<bool> asks = false, had = false;
    std::unique_lock holder(mutex);
    std::thread other([&] {
      asks = true;
      const std::lock_guard lock(mutex);
      had = true;
    });
    while (!asks) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    holder.unlock();
    holder.lock();
    passed += had ? 1 : 0;
    holder.unlock();
    other.join();
  }
  EXPECT_GT(passed, kRounds / 2);
}

}  // namespace
}  // namespace orrery
