#include "base/thread_team.hpp"

#include <system_error>

#include "base/topology.hpp"

namespace orrery {
namespace {

// About 50 us: longer than any step between two barriers of a small model, shorter than a tick that
// a user would see as a busy core.
constexpr int kSpins = 2000;

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns when `value` is no longer `old`.
template <class T>
void wait_change(std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

void Barrier::wait() {
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
    return;
  }
  wait_change(phase_, phase);
}

ThreadTeam::ThreadTeam(int threads) {
  // With a thread for every processor there is one right place for each; with fewer, the system
  // knows better than we do which processors are free.
  const bool pinned = static_cast<std::size_t>(threads) == available_cpus().size();
  for (int i = 1; i < threads; ++i) {
    try {
      workers_.emplace_back([this, i, pinned] { work(i, pinned); });
    } catch (const std::system_error&) {
      break;  // a smaller team computes the same
    }
  }
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_acq_rel);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run(void (*task)(void*, int), void* context) {
  task_ = task;
  context_ = context;
  running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_acq_rel);
  generation_.notify_all();
  task(context, 0);
  int left = running_.load(std::memory_order_acquire);
  while (left != 0) {
    wait_change(running_, left);
    left = running_.load(std::memory_order_acquire);
  }
}

void ThreadTeam::work(int thread, bool pinned) {
  if (pinned) pin_thread(thread);
  std::uint32_t seen = 0;
  while (true) {
    wait_change(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    task_(context_, thread);
    running_.fetch_sub(1, std::memory_order_acq_rel);
    running_.notify_one();
  }
}

}  // namespace orrery
