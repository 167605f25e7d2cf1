// The scheduler without its thread, on the fake backend and with a clock of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "engine/scheduler_fixture.hpp"

namespace orrery::engine::fake {

inline constexpr std::uint64_t kPageBytes = 256;  // of one group; there are two

class SchedulerLoopTest : public testing::Test {
 protected:
  void make(std::uint32_t context, std::uint32_t sequences, std::uint32_t running,
            std::uint64_t pages = 4000) {
    executor = make_executor(backend, context, sequences, pages * kPageBytes);
    make_loop(running);
  }
  void make_loop(std::uint32_t running) {
    loop.emplace(
        Writer{executor, &tokenizer, kVocab}, running, [this] { return now; },
        [this](RequestId id) { ++ended[id]; });
  }
  std::shared_ptr<Recorder> submit(Request request) {
    auto events = std::make_shared<Recorder>();
    auto task = std::make_unique<Task>(++last_id, std::move(request), events, tokenizer, now);
    cancels[last_id] = task->cancelled;
    loop->add(std::move(task));
    return events;
  }
  void cancel(RequestId id) { cancels[id]->store(true); }
  void run_all() {
    for (int ticks = 0; loop->has_work(); ++ticks) {
      ASSERT_LT(ticks, 100000);
      loop->tick();
    }
  }
  // Pages that the closed loop left behind.
  void expect_no_pages() {
    loop.reset();
    for (std::size_t g = 0; g < 2; ++g) EXPECT_EQ(executor->kv().pages_in_use(g), 0U);
  }

  Backend backend;
  Tokenizer tokenizer{alphabet()};
  double now = 0;
  RequestId last_id = 0;
  std::map<RequestId, std::shared_ptr<std::atomic<bool>>> cancels;
  std::map<RequestId, int> ended;
  std::shared_ptr<Executor> executor;
  std::optional<SchedulerLoop> loop;
};

}  // namespace orrery::engine::fake
