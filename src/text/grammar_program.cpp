#include "text/grammar_program.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace orrery::text {
namespace {

using Op = GrammarProgram::Op;
using Kind = GrammarRules::Kind;

// Which rules can be empty: a rule is looked at again when one that it calls has become so.
class Nullable {
 public:
  explicit Nullable(const GrammarRules& rules) : rules_(rules), of_(rules.rules().size(), false) {
    std::vector<std::vector<RuleId>> callers(of_.size());
    std::vector<RuleId> todo;
    for (RuleId rule = 0; rule < of_.size(); ++rule) {
      collect(rules.rules()[rule].body, rule, callers);
      todo.push_back(rule);
    }
    while (!todo.empty()) {
      const RuleId rule = todo.back();
      todo.pop_back();
      if (of_[rule] || !expr(rules.rules()[rule].body)) continue;
      of_[rule] = true;
      todo.insert(todo.end(), callers[rule].begin(), callers[rule].end());
    }
  }

  bool rule(RuleId id) const { return of_[id]; }

  // NOLINTNEXTLINE(misc-no-recursion): the parsers bound how deep expressions nest
  bool expr(ExprId id) const {
    const GrammarRules::Expr& e = rules_.expressions()[id];
    const auto children = rules_.children(e);
    const auto is_nullable = [&](ExprId child) { return expr(child); };
    switch (e.kind) {
      case Kind::empty:
        return true;
      case Kind::never:
      case Kind::literal:
      case Kind::byte:
        return false;
      case Kind::sequence:
        return std::all_of(children.begin(), children.end(), is_nullable);
      case Kind::choice:
        return std::any_of(children.begin(), children.end(), is_nullable);
      case Kind::repeat:
        return e.min == 0 || expr(e.first);
      case Kind::call:
        return of_[e.first];
    }
    std::unreachable();
  }

 private:
  void collect(ExprId id, RuleId caller, std::vector<std::vector<RuleId>>& callers) {
    std::vector<ExprId> todo = {id};
    while (!todo.empty()) {
      const GrammarRules::Expr& e = rules_.expressions()[todo.back()];
      todo.pop_back();
      if (e.kind == Kind::call) {
        auto& list = callers[e.first];
        if (list.empty() || list.back() != caller) list.push_back(caller);
      } else if (e.kind == Kind::repeat) {
        todo.push_back(e.first);
      } else if (e.kind == Kind::sequence || e.kind == Kind::choice) {
        const auto children = rules_.children(e);
        todo.insert(todo.end(), children.begin(), children.end());
      }
    }
  }

  const GrammarRules& rules_;
  std::vector<bool> of_;
};

class Compiler {
 public:
  explicit Compiler(const GrammarRules& rules) : rules_(rules), nullable_(rules) {}

  Result<GrammarProgram> run(RuleId root) {
    out_.root = root;
    for (const Op op : {Op::leave, Op::accept, Op::escape}) add({.op = op});
    for (RuleId rule = 0; rule < rules_.rules().size(); ++rule) {
      const GrammarRules::Rule& source = rules_.rules()[rule];
      if (!source.defined) return fail("E_GRAMMAR", "rule " + source.name + " is not defined");
      out_.rules.push_back({.nullable = nullable_.rule(rule)});
      bodies_.push_back(source.body);
      owners_.push_back(rule);
    }
    // Repetitions within repetitions add rules while this runs.
    for (RuleId rule = 0; rule < bodies_.size() && !full_; ++rule) {
      counter_ = -1;
      owner_ = owners_[rule];
      known_bytes_.clear();
      const NodeId start = compile(bodies_[rule], GrammarProgram::kLeave);
      out_.rules[rule].start = start;
    }
    if (full_ || rules_.overflowed()) {
      return fail("E_LIMIT", "the grammar needs more than " +
                                 std::to_string(GrammarProgram::kMaxNodes) +
                                 " states; make it smaller");
    }
    ORRERY_TRY_VOID(rank_rules());
    return std::move(out_);
  }

 private:
  NodeId add(GrammarProgram::Node node) {
    if (out_.nodes.size() >= GrammarProgram::kMaxNodes) {
      full_ = true;
      return GrammarProgram::kLeave;
    }
    out_.nodes.push_back(node);
    out_.counter_at.push_back(counter_);
    return static_cast<NodeId>(out_.nodes.size() - 1);
  }

  NodeId split(const std::vector<NodeId>& targets) {
    const auto first = static_cast<std::uint32_t>(out_.targets.size());
    out_.targets.insert(out_.targets.end(), targets.begin(), targets.end());
    return add({.op = Op::split, .a = first, .b = static_cast<std::uint32_t>(targets.size())});
  }

  // Equal ends are shared, so that a choice of many texts is a tree from behind.
  NodeId byte(std::uint8_t low, std::uint8_t high, NodeId next) {
    const auto [entry, is_new] = known_bytes_.try_emplace({low, high, next, counter_}, 0);
    if (is_new) entry->second = add({.op = Op::byte, .low = low, .high = high, .a = next});
    return entry->second;
  }

  // NOLINTNEXTLINE(misc-no-recursion): the parsers bound how deep expressions nest
  NodeId compile(ExprId id, NodeId next) {
    if (full_) return next;
    const GrammarRules::Expr& e = rules_.expressions()[id];
    const auto children = rules_.children(e);
    switch (e.kind) {
      case Kind::empty:
        return next;
      case Kind::never:
        return split({});
      case Kind::literal: {
        const std::string_view text = rules_.bytes(e);
        for (std::size_t i = text.size(); i-- > 0;) {
          const auto value = static_cast<std::uint8_t>(text[i]);
          next = byte(value, value, next);
        }
        return next;
      }
      case Kind::byte:
        return byte(e.low, e.high, next);
      case Kind::sequence:
        for (std::size_t i = children.size(); i-- > 0;) next = compile(children[i], next);
        return next;
      case Kind::choice: {
        std::vector<NodeId> targets;
        for (const ExprId child : children) targets.push_back(compile(child, next));
        return split(targets);
      }
      case Kind::repeat:
        return repeat(id, next);
      case Kind::call:
        return add({.op = Op::call, .a = e.first, .b = next});
    }
    std::unreachable();
  }

  // NOLINTNEXTLINE(misc-no-recursion): as compile
  NodeId repeat(ExprId id, NodeId next) {
    const GrammarRules::Expr& e = rules_.expressions()[id];
    if (e.min == 0 && e.max == 1) return split({compile(e.first, next), next});
    if (e.min <= 1 && e.max == kUnbounded) {
      const NodeId loop = split({0, next});
      const NodeId body = compile(e.first, loop);
      if (full_) return next;
      out_.targets[out_.nodes[loop].a] = body;
      return e.min == 0 ? loop : body;
    }
    if (counter_ >= 0) {
      const auto rule = static_cast<RuleId>(bodies_.size());
      bodies_.push_back(id);
      owners_.push_back(owner_);
      out_.rules.push_back({.nullable = nullable_.expr(id)});
      return add({.op = Op::call, .a = rule, .b = next});
    }
    const bool nullable = nullable_.expr(e.first);
    const auto counter = static_cast<std::uint32_t>(out_.counters.size());
    out_.counters.push_back(
        {.min = nullable ? 0 : e.min, .max = e.max, .next = next, .nullable = nullable});
    const NodeId enter = add({.op = Op::count_enter, .a = counter});
    counter_ = static_cast<std::int32_t>(counter);
    const NodeId loop = add({.op = Op::count_loop, .a = counter});
    const NodeId body = compile(e.first, loop);
    counter_ = -1;
    out_.counters[counter].body = body;
    return enter;
  }

  // The rules that `rule` can begin with before its first byte.
  std::vector<RuleId> beginnings(RuleId rule) {
    std::vector<RuleId> found;
    std::vector<NodeId> todo = {out_.rules[rule].start};
    const auto visit = [&](NodeId node) {
      if (std::exchange(seen_[node], rule + 1) != rule + 1) todo.push_back(node);
    };
    while (!todo.empty()) {
      const GrammarProgram::Node node = out_.nodes[todo.back()];
      todo.pop_back();
      if (node.op == Op::split) {
        for (std::uint32_t i = 0; i < node.b; ++i) visit(out_.targets[node.a + i]);
      } else if (node.op == Op::call) {
        found.push_back(node.a);
        if (out_.rules[node.a].nullable) visit(node.b);
      } else if (node.op == Op::count_enter || node.op == Op::count_loop) {
        const GrammarProgram::Counter& counter = out_.counters[node.a];
        visit(counter.body);
        if (counter.min == 0) visit(counter.next);
      }
    }
    return found;
  }

  // Depth first; a rule that is met again on the way down begins with itself.
  Status rank_rules() {
    enum : std::uint8_t { kNew, kOpen, kDone };
    std::vector<std::uint8_t> mark(out_.rules.size(), kNew);
    seen_.assign(out_.nodes.size(), 0);
    struct Step {
      RuleId rule;
      std::vector<RuleId> next;
      std::size_t at = 0;
    };
    auto rank = static_cast<std::uint32_t>(out_.rules.size());
    for (RuleId first = 0; first < out_.rules.size(); ++first) {
      if (mark[first] != kNew) continue;
      mark[first] = kOpen;
      std::vector<Step> path;
      path.push_back({first, beginnings(first)});
      while (!path.empty()) {
        Step& step = path.back();
        if (step.at == step.next.size()) {
          mark[step.rule] = kDone;
          out_.rules[step.rule].rank = --rank;
          path.pop_back();
          continue;
        }
        const RuleId next = step.next[step.at++];
        if (mark[next] == kDone) continue;
        if (mark[next] == kOpen) return left_recursive(next);
        mark[next] = kOpen;
        path.push_back({next, beginnings(next)});
      }
    }
    return {};
  }

  Status left_recursive(RuleId rule) const {
    return fail("E_GRAMMAR", "rule " + rules_.rules()[owners_[rule]].name +
                                 " begins with itself (left recursion); write it as a repetition");
  }

  const GrammarRules& rules_;
  Nullable nullable_;
  GrammarProgram out_;
  std::vector<ExprId> bodies_;
  std::vector<RuleId> owners_;  // the rule as written, for messages
  RuleId owner_ = 0;
  std::vector<std::uint32_t> seen_;
  std::map<std::tuple<std::uint8_t, std::uint8_t, NodeId, std::int32_t>, NodeId> known_bytes_;
  std::int32_t counter_ = -1;
  bool full_ = false;
};

}  // namespace

std::size_t GrammarProgram::memory_bytes() const {
  return nodes.size() * (sizeof(Node) + sizeof(std::int32_t)) + targets.size() * sizeof(NodeId) +
         counters.size() * sizeof(Counter) + rules.size() * sizeof(Rule);
}

Result<GrammarProgram> compile_rules(const GrammarRules& rules, RuleId root) {
  return Compiler(rules).run(root);
}

}  // namespace orrery::text
