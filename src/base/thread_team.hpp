// A fixed team of threads that enter one parallel region together. The caller is thread 0, so the
// engine loop computes; the others spin a little between regions and then sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace orrery {

// All threads of a team meet; sense-reversing, spins with pause and then sleeps on the futex.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}
  void wait();

 private:
  int threads_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> phase_{0};
};

class ThreadTeam {
 public:
  // Fewer threads than asked for when the system refuses them; size() tells.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }
  // Runs task(context, thread) on every thread; returns when all have ended. Not reentrant.
  void run(void (*task)(void* context, int thread), void* context);

 private:
  void work(int thread, bool pinned);

  std::vector<std::thread> workers_;
  void (*task_)(void*, int) = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  alignas(64) std::atomic<int> running_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace orrery
