// Random grammars beside a recogniser that is as plain as can be.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "text/grammar.hpp"
#include "text/grammar_support.hpp"

namespace orrery::text {
namespace {

struct Expr {
  enum class Kind : std::uint8_t { literal, char_class, sequence, choice, repeat, call };
  Kind kind = Kind::literal;
  std::string text;  // literal: the bytes; char_class: its members
  std::vector<Expr> children;
  int min = 0, max = 0;  // repeat; max -1: no end
  int rule = 0;          // call
};

class Maker {
 public:
  explicit Maker(std::mt19937& random) : random_(random) {}

  std::vector<Expr> grammar() {
    n_rules_ = 1 + below(4);
    std::vector<Expr> rules;
    for (int i = 0; i < n_rules_; ++i) rules.push_back(expr(3));
    return rules;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  // NOLINTNEXTLINE(misc-no-recursion): depth
  Expr expr(int depth) {
    Expr out;
    switch (below(depth > 0 ? 8 : 3)) {
      case 0:
        out.text =
            std::vector<std::string>{"", "a", "b", "ab", "aa"}[static_cast<std::size_t>(below(5))];
        return out;
      case 1:
        out.kind = Expr::Kind::char_class;
        out.text = std::vector<std::string>{"a", "ab", "bc"}[static_cast<std::size_t>(below(3))];
        return out;
      case 2:
        out.kind = Expr::Kind::call;
        out.rule = below(n_rules_);
        return out;
      case 3:
      case 4:
        out.kind = Expr::Kind::choice;
        break;
      case 5:
      case 6:
        out.kind = Expr::Kind::sequence;
        break;
      default:
        out.kind = Expr::Kind::repeat;
        out.min = below(3);
        out.max = below(3) == 0 ? -1 : out.min + below(3);
        out.children.push_back(expr(depth - 1));
        return out;
    }
    for (int i = 0, n = 1 + below(3); i < n; ++i) out.children.push_back(expr(depth - 1));
    return out;
  }

  std::mt19937& random_;
  int n_rules_ = 0;
};

std::string rule_name(int rule) {
  return rule == 0 ? "root" : "r" + std::to_string(rule);
}

// NOLINTNEXTLINE(misc-no-recursion): the maker's depth
std::string printed(const Expr& e) {
  std::string out;
  switch (e.kind) {
    case Expr::Kind::literal:
      return '"' + e.text + '"';
    case Expr::Kind::char_class:
      return '[' + e.text + ']';
    case Expr::Kind::call:
      return rule_name(e.rule);
    case Expr::Kind::repeat:
      return '(' + printed(e.children[0]) + "){" + std::to_string(e.min) + ',' +
             (e.max < 0 ? "" : std::to_string(e.max)) + '}';
    default:
      break;
  }
  for (const Expr& child : e.children) {
    const char* between = e.kind == Expr::Kind::choice ? " | " : " ";
    out += (out.empty() ? "(" : between) + printed(child);
  }
  return out + ')';
}

class Reference {
 public:
  explicit Reference(const std::vector<Expr>& rules)
      : rules_(rules), nullable_(rules.size(), false) {
    for (std::size_t round = 0; round <= rules.size(); ++round) {
      for (std::size_t i = 0; i < rules.size(); ++i) nullable_[i] = nullable(rules[i]);
    }
  }

  // Whether some rule can begin with itself.
  bool is_left_recursive() const {
    for (int rule = 0; rule < static_cast<int>(rules_.size()); ++rule) {
      std::set<int> seen;
      std::vector<int> todo = {rule};
      while (!todo.empty()) {
        std::set<int> first;
        begins(rules_[static_cast<std::size_t>(todo.back())], first);
        todo.pop_back();
        for (const int next : first) {
          if (next == rule) return true;
          if (seen.insert(next).second) todo.push_back(next);
        }
      }
    }
    return false;
  }

  bool accepts(const std::string& text) {
    text_ = text;
    known_.clear();
    return ends(rules_[0], 0).contains(text.size());
  }

 private:
  using Ends = std::set<std::size_t>;

  // NOLINTNEXTLINE(misc-no-recursion): the maker's depth
  bool nullable(const Expr& e) const {
    const auto is_nullable = [&](const Expr& child) { return nullable(child); };
    switch (e.kind) {
      case Expr::Kind::literal:
        return e.text.empty();
      case Expr::Kind::char_class:
        return false;
      case Expr::Kind::sequence:
        return std::ranges::all_of(e.children, is_nullable);
      case Expr::Kind::choice:
        return std::ranges::any_of(e.children, is_nullable);
      case Expr::Kind::repeat:
        return e.min == 0 || nullable(e.children[0]);
      case Expr::Kind::call:
        return nullable_[static_cast<std::size_t>(e.rule)];
    }
    return false;
  }

  // NOLINTNEXTLINE(misc-no-recursion): the maker's depth
  void begins(const Expr& e, std::set<int>& out) const {
    if (e.kind == Expr::Kind::call) out.insert(e.rule);
    if (e.kind == Expr::Kind::repeat && e.max == 0) return;
    for (const Expr& child : e.children) {
      begins(child, out);
      if (e.kind == Expr::Kind::sequence && !nullable(child)) return;
    }
  }

  // Where a text that begins at `from` may end.
  // NOLINTNEXTLINE(misc-no-recursion): no rule begins with itself
  Ends ends(const Expr& e, std::size_t from) {
    Ends out;
    switch (e.kind) {
      case Expr::Kind::literal:
        if (text_.substr(from).starts_with(e.text)) out.insert(from + e.text.size());
        return out;
      case Expr::Kind::char_class:
        if (from < text_.size() && e.text.contains(text_[from])) out.insert(from + 1);
        return out;
      case Expr::Kind::sequence:
        out = {from};
        for (const Expr& child : e.children) out = all_ends(child, out);
        return out;
      case Expr::Kind::choice:
        for (const Expr& child : e.children) out.merge(ends(child, from));
        return out;
      case Expr::Kind::repeat:
        return repeated(e, from);
      case Expr::Kind::call: {
        const auto key = std::pair(e.rule, from);
        if (const auto known = known_.find(key); known != known_.end()) return known->second;
        return known_[key] = ends(rules_[static_cast<std::size_t>(e.rule)], from);
      }
    }
    return out;
  }

  // NOLINTNEXTLINE(misc-no-recursion): as ends
  Ends all_ends(const Expr& e, const Ends& from) {
    Ends out;
    for (const std::size_t at : from) out.merge(ends(e, at));
    return out;
  }

  // NOLINTNEXTLINE(misc-no-recursion): as ends
  Ends repeated(const Expr& e, std::size_t from) {
    Ends at = {from};
    Ends out;
    const int most = e.max < 0 ? e.min + static_cast<int>(text_.size()) + 1 : e.max;
    for (int round = 0;; ++round) {
      if (round >= e.min) out.insert(at.begin(), at.end());
      if (round == most) break;
      at = all_ends(e.children[0], at);
    }
    return out;
  }

  const std::vector<Expr>& rules_;
  std::vector<bool> nullable_;
  std::string text_;
  std::map<std::pair<int, std::size_t>, Ends> known_;
};

bool takes(const ConstraintSource& source, std::string_view text) {
  const auto constraint = source.start();
  for (const char c : text) {
    if (!constraint->accept(static_cast<std::uint8_t>(c))) return false;
  }
  return constraint->accept(test::piece_tokenizer()->special().eos).has_value();
}

TEST(GbnfReference, RandomGrammarsTakeTheSameTexts) {
  std::mt19937 random(1);
  Grammars grammars(test::piece_tokenizer());
  std::vector<std::string> texts = {""};
  for (std::size_t i = 0; texts[i].size() < 4; ++i) {
    for (const char c : {'a', 'b', 'c'}) texts.push_back(texts[i] + c);
  }
  for (const char* text : {"aaaaaaaaa", "abababab", "aabbccaab", "bbbbbbb"}) texts.push_back(text);
  int held = 0;
  int taken = 0;
  for (int n = 0; n < 600; ++n) {
    const std::vector<Expr> rules = Maker(random).grammar();
    std::string grammar;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      grammar += rule_name(static_cast<int>(i)) + " ::= " + printed(rules[i]) + '\n';
    }
    Reference reference(rules);
    const auto source = grammars.gbnf(grammar);
    if (!source) {
      EXPECT_TRUE(reference.is_left_recursive()) << grammar << source.error().message;
      continue;
    }
    ASSERT_FALSE(reference.is_left_recursive()) << grammar;
    ++held;
    for (const std::string& text : texts) {
      const bool fits = reference.accepts(text);
      taken += fits ? 1 : 0;
      ASSERT_EQ(takes(**source, text), fits) << grammar << '"' << text << '"';
    }
    // The masks too, on one of them.
    const std::string& text = texts[random() % texts.size()];
    ASSERT_EQ(test::accepts(**source, text), reference.accepts(text)) << grammar << text;
  }
  EXPECT_GT(held, 200);
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace orrery::text
