// A thread with a bounded queue in front of it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace orrery::server {

class Worker {
 public:
  static constexpr std::size_t kMaxTasks = 512;
  static constexpr std::size_t kMaxBytes = 256U << 20;

  Worker();
  ~Worker();  // what still waits is dropped
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // False when the queue is full: so many tasks, or so many bytes that they hold.
  bool push(std::function<void()> task, std::size_t bytes);
  std::size_t waiting() const;

 private:
  struct Task {
    std::function<void()> run;
    std::size_t bytes;
  };
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::size_t bytes_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace orrery::server
