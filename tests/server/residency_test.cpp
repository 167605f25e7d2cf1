// The state machine of models in memory, with a clock of its own.
#include "server/residency.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <utility>

namespace orrery::server {
namespace {

using namespace std::chrono_literals;
using Answer = Residency::Answer;
using Kind = Residency::Step::Kind;
using Reason = Residency::Reason;

class ResidencyTest : public testing::Test {
 protected:
  static ResidencyOptions options(std::uint64_t budget) {
    ResidencyOptions options;
    options.budget = budget;
    options.max_waiting = 8;
    return options;
  }
  Answer ask(SlotId slot, WaiterId waiter, std::optional<Keep> keep = {}) {
    return machine_.ask(slot, keep, waiter, now_);
  }
  Residency::Step next() { return machine_.next(now_); }
  void expect(Kind kind, SlotId slot, WaiterId waiter = 0) {
    const auto step = next();
    EXPECT_EQ(step.kind, kind);
    EXPECT_EQ(step.slot, slot);
    EXPECT_EQ(step.waiter, waiter);
  }
  void expect_none() { EXPECT_EQ(next().kind, Kind::none); }
  // Asks for one that is not there and does all that follows.
  void bring(SlotId slot, WaiterId waiter) {
    ASSERT_EQ(ask(slot, waiter), Answer::waits);
    for (auto step = next(); step.kind != Kind::grant; step = next()) {
      ASSERT_NE(step.kind, Kind::none);
      if (step.kind == Kind::load) machine_.loaded(step.slot, machine_.bytes(step.slot), now_);
      if (step.kind == Kind::unload) machine_.unloaded(step.slot);
    }
  }

  Moment now_{1h};
  Residency machine_{options(100)};
};

TEST_F(ResidencyTest, LoadsWhatIsAskedForAndGrantsItToAllWhoWait) {
  const SlotId a = machine_.add(60, kForever);
  EXPECT_EQ(ask(a, 1), Answer::waits);
  EXPECT_EQ(ask(a, 2), Answer::waits);
  expect(Kind::load, a);
  expect_none();
  machine_.loaded(a, 70, now_);
  expect(Kind::grant, a, 1);
  expect(Kind::grant, a, 2);
  expect_none();
  EXPECT_EQ(machine_.used_bytes(), 70U);
  EXPECT_EQ(ask(a, 3), Answer::granted);
}

TEST_F(ResidencyTest, EvictsTheIdleOneThatWasUsedLongestAgo) {
  const SlotId a = machine_.add(40, kForever);
  const SlotId b = machine_.add(40, kForever);
  const SlotId c = machine_.add(50, kForever);
  bring(a, 1);
  bring(b, 2);
  now_ += 1s;
  machine_.release(b, now_);
  now_ += 1s;
  machine_.release(a, now_);
  EXPECT_EQ(ask(c, 3), Answer::waits);
  const auto step = next();
  EXPECT_EQ(step.kind, Kind::unload);
  EXPECT_EQ(step.slot, b);
  EXPECT_TRUE(step.evicted);
  expect_none();  // its memory is not free yet
  machine_.unloaded(b);
  expect(Kind::load, c);
  EXPECT_EQ(machine_.presence(a), Presence::ready);
}

TEST_F(ResidencyTest, NeverEvictsOneInUseAndNoneInVain) {
  const SlotId a = machine_.add(50, kForever);
  const SlotId b = machine_.add(20, kForever);
  const SlotId c = machine_.add(90, kForever);
  bring(a, 1);
  bring(b, 2);
  machine_.release(b, now_);
  EXPECT_EQ(ask(c, 3), Answer::waits);
  expect_none();  // b alone would not do
  now_ += 1s;
  machine_.release(a, now_);
  expect(Kind::unload, b);
  expect(Kind::unload, a);
  machine_.unloaded(a);
  expect_none();
  machine_.unloaded(b);
  expect(Kind::load, c);
}

TEST_F(ResidencyTest, AModelThatWaitsLongEnoughStopsTheOthers) {
  const SlotId a = machine_.add(60, kForever);
  const SlotId b = machine_.add(60, kForever);
  bring(a, 1);
  EXPECT_EQ(ask(b, 2), Answer::waits);
  expect_none();
  EXPECT_EQ(ask(a, 3), Answer::granted);  // not long enough yet
  machine_.release(a, now_);
  EXPECT_EQ(machine_.wake(now_), now_ + 2s);
  now_ += 2s;
  expect_none();
  EXPECT_EQ(ask(a, 4), Answer::waits);
  machine_.release(a, now_);
  expect(Kind::unload, a);
  machine_.unloaded(a);
  expect(Kind::load, b);
  machine_.loaded(b, 60, now_);
  expect(Kind::grant, b, 2);
  expect_none();
  machine_.release(b, now_);
  expect(Kind::unload, b);  // now the one that came later has its turn
  machine_.unloaded(b);
  expect(Kind::load, a);
  machine_.loaded(a, 60, now_);
  expect(Kind::grant, a, 4);
}

TEST_F(ResidencyTest, WhoWaitedWhenAModelCameIsServedAlthoughAnotherOneWaitsToo) {
  const SlotId a = machine_.add(60, kForever);
  const SlotId b = machine_.add(60, kForever);
  EXPECT_EQ(ask(a, 1), Answer::waits);
  EXPECT_EQ(ask(b, 2), Answer::waits);
  EXPECT_EQ(ask(a, 3), Answer::waits);
  now_ += 3s;
  expect(Kind::load, a);
  machine_.loaded(a, 60, now_);
  expect(Kind::grant, a, 1);
  EXPECT_EQ(ask(a, 4), Answer::waits);
  expect(Kind::grant, a, 3);
  expect_none();
}

TEST_F(ResidencyTest, TakesRequestsAgainWhenTheOneThatWaitedGoesAway) {
  const SlotId a = machine_.add(60, kForever);
  const SlotId b = machine_.add(60, kForever);
  bring(a, 1);
  EXPECT_EQ(ask(b, 2), Answer::waits);
  now_ += 3s;
  expect_none();
  EXPECT_EQ(ask(a, 3), Answer::waits);
  machine_.cancel(2);
  expect(Kind::grant, a, 3);
  expect_none();
}

TEST_F(ResidencyTest, LetsIdleModelsGoAfterTheirTime) {
  const SlotId a = machine_.add(10, 5min);
  bring(a, 1);
  now_ += 1h;
  expect_none();  // in use
  EXPECT_EQ(machine_.expires(a, now_), now_ + 5min);
  machine_.release(a, now_);
  EXPECT_EQ(machine_.wake(now_), now_ + 5min);
  now_ += 5min - 1ms;
  expect_none();
  now_ += 1ms;
  const auto step = next();
  EXPECT_EQ(step.kind, Kind::unload);
  EXPECT_FALSE(step.evicted);
  EXPECT_EQ(ask(a, 2), Answer::waits);  // while it goes
  expect_none();
  machine_.unloaded(a);
  expect(Kind::load, a);
}

TEST_F(ResidencyTest, TheKeepOfARequestHoldsUntilTheModelGoes) {
  const SlotId a = machine_.add(10, 5min);
  bring(a, 1);
  EXPECT_EQ(ask(a, 2, Keep(0)), Answer::granted);
  machine_.release(a, now_);
  expect_none();  // another one is still answered
  machine_.release(a, now_);
  expect(Kind::unload, a);
  machine_.unloaded(a);
  bring(a, 3);
  machine_.release(a, now_);
  expect_none();  // the usual one again
  EXPECT_EQ(ask(a, 4, kForever), Answer::granted);
  machine_.release(a, now_);
  now_ += 1000h;
  expect_none();
  machine_.expire(a);
  expect(Kind::unload, a);
}

TEST_F(ResidencyTest, ToLetOneGoThatIsNotThereChangesNothing) {
  const SlotId a = machine_.add(10, kForever);
  machine_.expire(a);
  bring(a, 1);
  machine_.release(a, now_);
  expect_none();
}

TEST_F(ResidencyTest, AFailureIsToldToAllAndTriedAgainLater) {
  const SlotId a = machine_.add(10, kForever);
  EXPECT_EQ(ask(a, 1), Answer::waits);
  EXPECT_EQ(ask(a, 2), Answer::waits);
  expect(Kind::load, a);
  machine_.failed(a, now_);
  expect(Kind::refuse, a, 1);
  expect(Kind::refuse, a, 2);
  expect_none();
  EXPECT_EQ(machine_.used_bytes(), 0U);
  EXPECT_EQ(ask(a, 3), Answer::failed);
  now_ += 2s;
  EXPECT_EQ(ask(a, 4), Answer::waits);
  expect(Kind::load, a);
}

TEST_F(ResidencyTest, RefusesWhatTheBudgetCannotHold) {
  const SlotId a = machine_.add(101, kForever);
  const SlotId b = machine_.add(80, kForever);
  EXPECT_EQ(ask(a, 1), Answer::waits);
  auto step = next();
  EXPECT_EQ(step.kind, Kind::refuse);
  EXPECT_EQ(step.reason, Reason::too_large);
  EXPECT_EQ(ask(b, 2), Answer::waits);
  expect(Kind::load, b);
  machine_.loaded(b, 120, now_);  // it took more than was thought
  step = next();
  EXPECT_EQ(step.kind, Kind::refuse);
  EXPECT_EQ(step.reason, Reason::too_large);
  expect(Kind::unload, b);
  machine_.unloaded(b);
  expect_none();
}

TEST_F(ResidencyTest, AModelThatTookMoreThanThoughtMakesIdleOnesGo) {
  const SlotId a = machine_.add(40, kForever);
  const SlotId b = machine_.add(40, kForever);
  bring(a, 1);
  machine_.release(a, now_);
  EXPECT_EQ(ask(b, 2), Answer::waits);
  expect(Kind::load, b);
  machine_.loaded(b, 70, now_);
  expect(Kind::grant, b, 2);
  expect(Kind::unload, a);
}

TEST_F(ResidencyTest, BoundsTheWait) {
  const SlotId a = machine_.add(60, kForever);
  const SlotId b = machine_.add(60, kForever);
  bring(a, 1);
  for (WaiterId waiter = 2; waiter < 10; ++waiter) EXPECT_EQ(ask(b, waiter), Answer::waits);
  EXPECT_EQ(ask(b, 10), Answer::full);
  machine_.cancel(9);
  now_ += 5s;
  for (WaiterId waiter = 2; waiter < 9; ++waiter) expect(Kind::notice, b, waiter);
  expect_none();
  now_ += 295s;
  for (WaiterId waiter = 2; waiter < 9; ++waiter) {
    const auto step = next();
    EXPECT_EQ(step.kind, Kind::refuse);
    EXPECT_EQ(step.reason, Reason::patience);
  }
  expect_none();
  EXPECT_EQ(machine_.waiting(), 0U);
}

TEST_F(ResidencyTest, RetiresWhatNobodyUses) {
  const SlotId a = machine_.add(10, kForever);
  bring(a, 1);
  EXPECT_FALSE(machine_.retire(a));
  machine_.release(a, now_);
  EXPECT_TRUE(machine_.retire(a));
  EXPECT_EQ(ask(a, 2), Answer::retired);
  expect(Kind::unload, a);
  expect_none();
  machine_.unloaded(a);
  expect(Kind::retired, a);
  expect_none();
  EXPECT_EQ(ask(a, 3), Answer::retired);
  machine_.revive(a);
  EXPECT_EQ(ask(a, 4), Answer::waits);
  EXPECT_FALSE(machine_.retire(a));
}

// Requests, loads and time in a random order.
class Course {
 public:
  static constexpr SlotId kSlots = 4;

  Course(unsigned seed, const ResidencyOptions& options) : random_(seed), machine_(options) {
    for (SlotId slot = 0; slot < kSlots; ++slot) {
      machine_.add(20 + 15 * slot, slot % 2 == 0 ? kForever : Keep(1000));
    }
  }

  void go() {
    now_ += std::chrono::milliseconds(pick(500));
    switch (pick(6)) {
      case 0:
      case 1:
        return ask();
      case 2:
        return used_.empty() ? void() : release(*used_.begin());
      case 3:
        return finish(true);
      case 4:
        return waiting_.empty() || pick(4) > 0 ? void() : cancel();
      default:
        return step();
    }
  }
  // The answers end, the loads too: soon nobody waits.
  void end() {
    for (int i = 0; i < 200 && !waiting_.empty(); ++i) {
      while (!used_.empty()) release(*used_.begin());
      finish(false);
      step();
    }
    EXPECT_TRUE(waiting_.empty());
  }

 private:
  unsigned pick(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
  void ask() {
    const SlotId slot = pick(kSlots);
    const auto keep = pick(5) == 0 ? std::optional(Keep(0)) : std::nullopt;
    const Answer answer = machine_.ask(slot, keep, ++last_, now_);
    if (answer == Answer::granted) used_.insert(slot);
    if (answer == Answer::waits) waiting_.insert(last_);
  }
  void release(SlotId slot) {
    machine_.release(slot, now_);
    used_.erase(used_.find(slot));
  }
  void cancel() {
    machine_.cancel(*waiting_.begin());
    waiting_.erase(waiting_.begin());
  }
  void finish(bool may_fail) {
    for (const SlotId slot : std::exchange(loading_, {})) {
      may_fail&& pick(4) == 0 ? machine_.failed(slot, now_)
                              : machine_.loaded(slot, machine_.bytes(slot), now_);
    }
    for (const SlotId slot : std::exchange(unloading_, {})) machine_.unloaded(slot);
  }
  void step() {
    const auto todo = machine_.next(now_);
    if (todo.kind == Kind::load) loading_.insert(todo.slot);
    if (todo.kind == Kind::unload) {
      EXPECT_FALSE(used_.contains(todo.slot));
      unloading_.insert(todo.slot);
    }
    if (todo.kind == Kind::grant) used_.insert(todo.slot);
    const bool answers = todo.kind == Kind::grant || todo.kind == Kind::refuse;
    if (answers) {
      EXPECT_EQ(waiting_.erase(todo.waiter), 1U);
    }
    EXPECT_LE(machine_.used_bytes(), 100U);
    EXPECT_LE(loading_.size(), 1U);
  }

  std::mt19937 random_;
  Residency machine_;
  Moment now_{1h};
  WaiterId last_ = 0;
  std::set<WaiterId> waiting_;
  std::multiset<SlotId> used_;
  std::set<SlotId> loading_, unloading_;
};

// Whatever happens in whatever order: no model in use goes, the budget holds, and everybody who
// waits hears something in the end.
TEST_F(ResidencyTest, LosesNobodyInAThousandRandomCourses) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, "seed " + std::to_string(seed));
    Course course(seed, options(100));
    for (int i = 0; i < 200; ++i) course.go();
    course.end();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace orrery::server
