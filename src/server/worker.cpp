#include "server/worker.hpp"

#include <utility>

namespace orrery::server {

Worker::Worker() : thread_([this] { work(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Worker::push(std::function<void()> task, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || tasks_.size() >= kMaxTasks || bytes > kMaxBytes - bytes_) return false;
    bytes_ += bytes;
    tasks_.push_back({std::move(task), bytes});
  }
  changed_.notify_one();
  return true;
}

std::size_t Worker::waiting() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size();
}

void Worker::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (stop_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task.run();
    task.run = nullptr;  // what it holds ends here, not under the lock
    lock.lock();
    bytes_ -= task.bytes;
  }
}

}  // namespace orrery::server
