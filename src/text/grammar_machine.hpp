// Runs a program byte by byte over all readings of a text at once. The stacks of the readings are
// one graph: a rule that is called twice at one place of the text runs once and returns to both
// callers, so an ambiguous grammar costs its square, not its power. States are numbered and their
// steps remembered: a text that comes back to a state takes one look-up a byte.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar_program.hpp"

namespace orrery::text {

using StateId = std::uint32_t;
using StackId = std::uint32_t;

class GrammarMachine {
 public:
  static constexpr StateId kDead = 0;
  // Readings at once; a text that needs more is dead.
  static constexpr std::size_t kMaxItems = 4096;
  static constexpr std::uint32_t kFresh = 0x80000000;  // of a count: nothing in this round yet

  static constexpr std::size_t kDefaultBudget = std::size_t{1} << 21;

  // A reading: at a node that takes a byte, in round `count` of the node's counter, returning to
  // one of the callers of `stack`.
  struct Item {
    NodeId node = 0;
    std::uint32_t count = 0;
    StackId stack = 0;
    bool operator==(const Item&) const = default;
    auto operator<=>(const Item&) const = default;
  };

  explicit GrammarMachine(std::shared_ptr<const GrammarProgram> program);

  StateId start();
  StateId step(StateId state, std::uint8_t byte) {
    const std::int32_t table = states_[state].steps;
    if (table >= 0) {
      const StateId known = steps_[static_cast<std::size_t>(table)][byte];
      if (known != kUnknown) return known;
    }
    return compute_step(state, byte, true);
  }
  // The same for a text that passes through and may not come back: nothing is remembered.
  StateId step_once(StateId state, std::uint8_t byte) {
    return states_[state].steps >= 0 ? step(state, byte) : compute_step(state, byte, false);
  }
  // Steps that are not remembered yet fail once this many readings were looked at: a text in a
  // hostile grammar costs a bounded time. A new budget begins anew.
  void set_budget(std::size_t readings) { budget_ = readings; }
  bool is_exhausted() const { return budget_ == 0; }

  bool accepts(StateId state) const { return (states_[state].flags & kAccepts) != 0; }
  bool escapes(StateId state) const { return (states_[state].flags & kEscapes) != 0; }
  std::span<const Item> items(StateId state) const {
    return std::span(items_).subspan(states_[state].first, states_[state].count);
  }

  // The state of these items with an unknown stack, all of theirs being the same: it escapes where
  // they would return.
  StateId fragment(std::span<const Item> items);
  StateId with_stack(std::span<const Item> items);
  // The state after a return to the callers of `stack`.
  StateId returned(StackId stack);
  // The state of another machine of this program.
  StateId import(const GrammarMachine& from, StateId state);

  const GrammarProgram& program() const { return *program_; }
  std::size_t memory_bytes() const;

 private:
  struct Edge {
    NodeId node = 0;
    std::uint32_t count = 0;
    StackId parent = 0;
    bool operator==(const Edge&) const = default;
    auto operator<=>(const Edge&) const = default;
  };
  struct Stack {
    std::uint32_t first = 0, count = 0;  // of edges_
  };
  struct State {
    std::uint32_t first = 0, count = 0;  // of items_
    std::int32_t steps = -1;
    std::uint8_t flags = 0;
  };
  // A rule called at the place in work: its callers are still being collected.
  struct Open {
    RuleId rule = 0;
    std::vector<Edge> edges;
    std::vector<StackId> same_as;  // callers of these are callers of this one (tail calls)
  };
  static constexpr StateId kUnknown = 0xFFFFFFFF;
  static constexpr std::uint8_t kAccepts = 1, kEscapes = 2;
  static constexpr StackId kEmptyStack = 0, kUnknownStack = 1;
  static constexpr StackId kOpenBit = 0x80000000;  // an index of open_

  StateId compute_step(StateId state, std::uint8_t byte, bool remember);
  StateId close();
  void push(Item item);
  void advance(const Item& item);
  void call(const Item& item, const GrammarProgram::Node& node);
  void decide(std::uint32_t counter, std::uint32_t count, StackId stack);
  bool finish_open();
  StateId intern_state(std::vector<Item>& items, std::uint8_t flags);
  StackId intern_stack(std::vector<Edge>& edges);

  std::shared_ptr<const GrammarProgram> program_;
  std::vector<Item> items_;
  std::vector<Edge> edges_;
  std::vector<State> states_;
  std::vector<Stack> stacks_;
  std::vector<std::array<StateId, 256>> steps_;
  std::unordered_multimap<std::uint64_t, StateId> known_states_;
  std::unordered_multimap<std::uint64_t, StackId> known_stacks_;
  std::unordered_map<StackId, StateId> returned_;

  // Of the closure in work.
  std::vector<Item> queue_;
  std::vector<std::uint32_t> slots_;  // open addressing over queue_, index + 1
  std::vector<Open> open_;
  std::vector<std::int32_t> open_of_;  // (rules)
  std::vector<StackId> final_;         // (open_)
  std::size_t budget_ = kDefaultBudget;
  std::uint8_t flags_ = 0;
};

}  // namespace orrery::text
