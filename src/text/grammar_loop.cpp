#include "text/grammar_loop.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace orrery::text {
namespace {

using Item = GrammarMachine::Item;

class LoopFinder {
 public:
  LoopFinder(GrammarMachine& machine, StateId state)
      : machine_(machine), state_(state), room_(rounds_left()) {}

  GrammarLoop run() {
    const GrammarLoop loop = within_bounds();
    if (!counts_) return loop;
    const GrammarLoop beyond = across_bound(room_ > 0 ? loop.classes : ~ByteClasses{0});
    return std::popcount(beyond.classes) >= std::popcount(loop.classes) ? beyond : loop;
  }

 private:
  GrammarLoop within_bounds() {
    const auto back = [&](StateId next) { return next == state_; };
    const auto further = [&](StateId next) { return is_further(next); };
    GrammarLoop same{.classes = classes_from(state_, back)};
    if (same.classes != 0 && every_other()) same.classes |= kWideClass | kOtherClass;
    if (room_ == 0) return same;
    const GrammarLoop counted{.classes = classes_from(state_, further), .characters = room_};
    return std::popcount(same.classes) >= std::popcount(counted.classes) ? same : counted;
  }

  // The character that takes a counter to its bound leads to another state, as where a text that is
  // long enough may end. The loop of that one, as far as all of these classes lead to it, begins
  // here.
  GrammarLoop across_bound(ByteClasses classes) {
    std::vector<Item> items(machine_.items(state_).begin(), machine_.items(state_).end());
    for (Item& item : items) item.count += is_counting(item) ? room_ : 0;
    const StateId last = machine_.with_stack(items);
    StateId next = GrammarMachine::kDead;
    for (std::size_t i = 0; i < kByteClasses.size() && next == GrammarMachine::kDead; ++i) {
      if ((classes >> i & 1) == 0) continue;
      next = machine_.step(last, static_cast<std::uint8_t>(kByteClasses[i][0]));
    }
    if (next == GrammarMachine::kDead) return {};
    GrammarLoop beyond = LoopFinder(machine_, next).within_bounds();
    beyond.classes &= classes & classes_from(last, [&](StateId to) { return to == next; });
    if (beyond.characters != GrammarLoop::kEndless) beyond.characters += room_ + 1;
    return beyond;
  }

  // Whether `next` is the state with every counter one further.
  bool is_further(StateId next) const {
    const auto from = machine_.items(state_);
    const auto to = machine_.items(next);
    return machine_.accepts(next) == machine_.accepts(state_) &&
           machine_.escapes(next) == machine_.escapes(state_) &&
           std::equal(from.begin(), from.end(), to.begin(), to.end(),
                      [&](const Item& a, const Item& b) {
                        const std::uint32_t step = is_counting(a) ? 1 : 0;
                        return a.node == b.node && a.stack == b.stack && a.count + step == b.count;
                      });
  }

  bool is_counting(const Item& item) const { return machine_.program().counter_at[item.node] >= 0; }

  // As long as no counter reaches a bound, the readings stay the same. 0: nothing is counted.
  std::uint32_t rounds_left() {
    std::uint32_t room = kUnbounded;
    for (const Item& item : machine_.items(state_)) {
      if (!is_counting(item)) continue;
      if ((item.count & GrammarMachine::kFresh) != 0) return counts_ = false, 0;
      counts_ = true;
      const GrammarProgram& program = machine_.program();
      const auto index = static_cast<std::size_t>(program.counter_at[item.node]);
      const GrammarProgram::Counter& counter = program.counters[index];
      const std::uint32_t bound = item.count < counter.min ? counter.min : counter.max;
      room = std::min(room, bound - 1 - item.count);
    }
    return room == kUnbounded ? 0 : room;
  }

  // Those whose characters all lead from `from` to where it `fits`.
  template <typename Fits>
  ByteClasses classes_from(StateId from, const Fits& fits) {
    ByteClasses classes = 0;
    for (std::size_t i = 0; i < kByteClasses.size(); ++i) {
      const bool all = std::ranges::all_of(kByteClasses[i], [&](char c) {
        return fits(machine_.step(from, static_cast<std::uint8_t>(c)));
      });
      if (all) classes |= ByteClasses{1} << i;
    }
    if (classes != 0 && every_wide(from, fits)) classes |= kWideClass;
    return classes;
  }

  // All bytes that have no class, but that of special tokens, whose subtree is theirs alone.
  bool every_other() {
    for (std::uint32_t byte = 0; byte < 0xFF; ++byte) {
      const bool has_class =
          byte < 0x80 &&
          std::ranges::any_of(
              kByteClasses, [&](auto bytes) { return bytes.contains(static_cast<char>(byte)); });
      if (!has_class && machine_.step(state_, static_cast<std::uint8_t>(byte)) != state_) {
        return false;
      }
    }
    return true;
  }

  // All that is UTF-8 and not ASCII.
  template <typename Fits>
  bool every_wide(StateId from, const Fits& fits) {
    struct Sequence {
      std::uint8_t lead, last_lead, second, last_second;
      int more;
    };
    constexpr Sequence kSequences[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1},
                                       {0xE1, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1},
                                       {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                                       {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};
    for (const Sequence& s : kSequences) {
      for (std::uint32_t lead = s.lead; lead <= s.last_lead; ++lead) {
        const StateId next = machine_.step(from, static_cast<std::uint8_t>(lead));
        if (!all_fit(next, s.second, s.last_second, s.more, fits)) return false;
      }
    }
    return true;
  }

  // Every byte of the range, with `more` continuations behind it.
  template <typename Fits>
  // NOLINTNEXTLINE(misc-no-recursion): `more` goes down
  bool all_fit(StateId from, std::uint32_t first, std::uint32_t last, int more, const Fits& fits) {
    StateId seen = GrammarMachine::kDead;
    for (std::uint32_t byte = first; byte <= last; ++byte) {
      const StateId next = machine_.step(from, static_cast<std::uint8_t>(byte));
      if (next == GrammarMachine::kDead) return false;
      if (next == seen) continue;
      const bool all = more == 0 ? fits(next) : all_fit(next, 0x80, 0xBF, more - 1, fits);
      if (!all) return false;
      seen = next;
    }
    return true;
  }

  GrammarMachine& machine_;
  StateId state_;
  bool counts_ = false;  // where the bounds of counters are known
  std::uint32_t room_ = 0;
};

}  // namespace

GrammarLoop find_loop(GrammarMachine& machine, StateId state) {
  return LoopFinder(machine, state).run();
}

}  // namespace orrery::text
