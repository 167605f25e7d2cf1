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

// One that takes it again at once, and holds it nearly all of the time.
TEST(FairMutex, NobodyStarves) {
  FairMutex mutex;
  std::unique_lock holder(mutex);
  std::atomic<int> entered = 0;
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) {
      const std::lock_guard lock(mutex);
      ++entered;
    }
  });
  int rounds = 0;
  for (; rounds < 200 && entered < 20; ++rounds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    holder.unlock();
    holder.lock();
  }
  holder.unlock();
  other.join();
  EXPECT_LT(rounds, 200);
}

}  // namespace
}  // namespace orrery
