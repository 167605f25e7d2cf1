// Handing out the items of one step to the threads of the team.
#pragma once

#include <atomic>
#include <cstdint>

namespace orrery::backend::cpu {

struct alignas(64) Cursor {
  std::atomic<std::int32_t> taken{0};
};

// Every thread owns a contiguous range of the items, so that what it reads is one stream; who is
// done helps the others, so that nobody waits for a preempted thread.
class Handout {
 public:
  // `cursors`: one a thread, at zero.
  Handout(Cursor* cursors, int thread, int threads, std::int32_t items)
      : cursors_(cursors), owner_(thread), threads_(threads), left_(threads), items_(items) {}

  // The next item, or -1 when all are taken.
  std::int32_t next() {
    for (; left_ > 0; --left_, owner_ = owner_ + 1 == threads_ ? 0 : owner_ + 1) {
      const std::int32_t end = first(owner_ + 1);
      const std::int32_t item =
          first(owner_) + cursors_[owner_].taken.fetch_add(1, std::memory_order_relaxed);
      if (item < end) return item;
    }
    return -1;
  }

  // Where the range of a thread begins.
  std::int32_t first(int thread) const {
    return static_cast<std::int32_t>(std::int64_t{items_} * thread / threads_);
  }

 private:
  Cursor* cursors_;
  int owner_, threads_, left_;
  std::int32_t items_;
};

}  // namespace orrery::backend::cpu
