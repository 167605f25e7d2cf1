#include "text/grammar_loop.hpp"

#include <algorithm>
#include <bit>

namespace orrery::text {
namespace {

using Item = GrammarMachine::Item;

class LoopFinder {
 public:
  LoopFinder(GrammarMachine& machine, StateId state) : machine_(machine), state_(state) {}

  GrammarLoop run() {
    const std::uint32_t room = rounds_left();
    GrammarLoop same{.classes = 0};
    GrammarLoop counted{.classes = 0, .characters = room};
    for (std::size_t i = 0; i < kByteClasses.size(); ++i) {
      if (every_byte(kByteClasses[i], false)) same.classes |= ByteClasses{1} << i;
      if (room > 0 && every_byte(kByteClasses[i], true)) counted.classes |= ByteClasses{1} << i;
    }
    if (same.classes != 0 && every_wide(false)) same.classes |= kWideClass;
    if (same.classes != 0 && every_other()) same.classes |= kWideClass | kOtherClass;
    if (counted.classes != 0 && every_wide(true)) counted.classes |= kWideClass;
    return std::popcount(same.classes) >= std::popcount(counted.classes) ? same : counted;
  }

 private:
  // Whether `next` is the state itself or, `counted`, the same with every counter one further.
  bool is_back(StateId next, bool counted) const {
    if (!counted) return next == state_;
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
  std::uint32_t rounds_left() const {
    std::uint32_t room = kUnbounded;
    for (const Item& item : machine_.items(state_)) {
      if (!is_counting(item)) continue;
      if ((item.count & GrammarMachine::kFresh) != 0) return 0;
      const GrammarProgram& program = machine_.program();
      const auto index = static_cast<std::size_t>(program.counter_at[item.node]);
      const GrammarProgram::Counter& counter = program.counters[index];
      const std::uint32_t bound = item.count < counter.min ? counter.min : counter.max;
      room = std::min(room, bound - 1 - item.count);
    }
    return room == kUnbounded ? 0 : room;
  }

  bool every_byte(std::string_view bytes, bool counted) {
    return std::all_of(bytes.begin(), bytes.end(), [&](char c) {
      return is_back(machine_.step(state_, static_cast<std::uint8_t>(c)), counted);
    });
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
  bool every_wide(bool counted) {
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
        const StateId next = machine_.step(state_, static_cast<std::uint8_t>(lead));
        if (!leads_back(next, s.second, s.last_second, s.more, counted)) return false;
      }
    }
    return true;
  }

  // Whether every byte of the range does, with `more` continuations behind it.
  // NOLINTNEXTLINE(misc-no-recursion): `more` goes down
  bool leads_back(StateId from, std::uint32_t first, std::uint32_t last, int more, bool counted) {
    StateId seen = GrammarMachine::kDead;
    for (std::uint32_t byte = first; byte <= last; ++byte) {
      const StateId next = machine_.step(from, static_cast<std::uint8_t>(byte));
      if (next == GrammarMachine::kDead) return false;
      if (next == seen) continue;
      const bool fits =
          more == 0 ? is_back(next, counted) : leads_back(next, 0x80, 0xBF, more - 1, counted);
      if (!fits) return false;
      seen = next;
    }
    return true;
  }

  GrammarMachine& machine_;
  StateId state_;
};

}  // namespace

GrammarLoop find_loop(GrammarMachine& machine, StateId state) {
  return LoopFinder(machine, state).run();
}

}  // namespace orrery::text
