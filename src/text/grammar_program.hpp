// Rules as nodes that a machine walks: one graph, in which a call puts the node behind it on a
// stack. Repetitions are counted, never unrolled.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "text/grammar_rules.hpp"

namespace orrery::text {

using NodeId = std::uint32_t;

struct GrammarProgram {
  enum class Op : std::uint8_t {
    byte,         // [low, high], then `a`
    split,        // targets [a, a + b) without a byte; none: a dead end
    call,         // rule a, then b
    count_enter,  // counter a starts at 0
    count_loop,   // one more round of counter a is done
    leave,        // the end of a rule
    accept,       // the end of the text
    escape,       // the end of what a fragment knows (GrammarMachine::fragment)
  };
  struct Node {
    Op op = Op::split;
    std::uint8_t low = 0, high = 0;
    std::uint32_t a = 0, b = 0;
  };
  struct Counter {
    std::uint32_t min = 0, max = 0;
    NodeId body = 0, next = 0;
    bool nullable = false;  // the body may be empty; min is 0 then
  };
  struct Rule {
    NodeId start = 0;
    bool nullable = false;
    std::uint32_t rank = 0;  // above the rank of every rule that begins with this one
  };
  static constexpr NodeId kLeave = 0, kAccept = 1, kEscape = 2;
  static constexpr std::size_t kMaxNodes = 65536;

  std::vector<Node> nodes;
  std::vector<NodeId> targets;
  std::vector<Counter> counters;
  std::vector<Rule> rules;
  // Of the counter that is running at a node, or -1: a body holds no second one (that is a rule).
  std::vector<std::int32_t> counter_at;
  RuleId root = 0;

  std::size_t memory_bytes() const;
};

// E_GRAMMAR for a rule that is not defined or begins with itself, E_LIMIT above kMaxNodes.
Result<GrammarProgram> compile_rules(const GrammarRules& rules, RuleId root);

}  // namespace orrery::text
