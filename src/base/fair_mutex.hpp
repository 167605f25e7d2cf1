// A mutex that is taken in the order in which threads ask for it. std::mutex lets a thread that
// takes it again and again, as a scheduler does tick after tick, starve those that wait.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace orrery {

class FairMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const std::uint64_t ticket = next_++;
    turns_.wait(lock, [&] { return ticket == current_; });
  }
  void unlock() {
    const std::lock_guard lock(mutex_);
    ++current_;
    turns_.notify_all();  // each looks whether it is meant; they are few
  }

 private:
  std::mutex mutex_;
  std::condition_variable turns_;
  std::uint64_t next_ = 0;     // ticket of the next that asks
  std::uint64_t current_ = 0;  // ticket of the one that holds it, or will
};

}  // namespace orrery
