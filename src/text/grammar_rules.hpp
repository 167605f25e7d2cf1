// What grammars, schemas and patterns are turned into: rules over bytes. Characters are classes of
// code points that become UTF-8 sequences here, so that nothing behind this knows of characters.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::text {

using ExprId = std::uint32_t;
using RuleId = std::uint32_t;
inline constexpr std::uint32_t kUnbounded = 0xFFFFFFFF;

// Code points first to last, both included.
struct CharRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  bool operator==(const CharRange&) const = default;
  auto operator<=>(const CharRange&) const = default;
};
using CharSet = std::vector<CharRange>;  // ascending, not touching, after normalized()

CharSet normalized(CharSet set);
// All code points but these and the surrogates.
CharSet complement(const CharSet& set);
CharSet intersection(const CharSet& a, const CharSet& b);

// A byte that no UTF-8 has: a special token is this byte and then its text.
inline constexpr char kSpecialByte = '\xFF';

class GrammarRules {
 public:
  enum class Kind : std::uint8_t { empty, never, literal, byte, sequence, choice, repeat, call };
  struct Expr {
    Kind kind = Kind::empty;
    std::uint8_t low = 0, high = 0;      // byte: the range
    std::uint32_t first = 0, count = 0;  // literal: of bytes(); sequence, choice: of children()
    std::uint32_t min = 0, max = 0;      // repeat: how often `first` occurs
  };
  struct Rule {
    std::string name;  // for messages
    ExprId body = 0;
    bool defined = false;
  };

  // More would only come from hostile input; then overflowed() and all that is asked for is
  // never().
  static constexpr std::size_t kMaxExpressions = std::size_t{1} << 19;

  GrammarRules();
  ExprId empty() const { return 0; }
  ExprId never() const { return 1; }
  ExprId literal(std::string_view bytes);
  ExprId byte(std::uint8_t low, std::uint8_t high);
  ExprId sequence(std::span<const ExprId> parts);
  ExprId sequence(std::initializer_list<ExprId> parts) { return sequence(std::span(parts)); }
  ExprId choice(std::span<const ExprId> parts);
  ExprId choice(std::initializer_list<ExprId> parts) { return choice(std::span(parts)); }
  ExprId repeat(ExprId body, std::uint32_t min, std::uint32_t max);
  ExprId optional(ExprId body) { return repeat(body, 0, 1); }
  ExprId chars(const CharSet& set);
  ExprId special(std::string_view token);

  RuleId declare(std::string name);
  void define(RuleId rule, ExprId body);
  ExprId call(RuleId rule);
  // A rule that is known already, as an expression.
  ExprId rule(std::string name, ExprId body);

  const std::vector<Expr>& expressions() const { return expressions_; }
  const std::vector<Rule>& rules() const { return rules_; }
  // Of a sequence or a choice; others have none.
  std::span<const ExprId> children(const Expr& e) const {
    const bool is_group = e.kind == Kind::sequence || e.kind == Kind::choice;
    return is_group ? std::span(children_).subspan(e.first, e.count) : std::span<const ExprId>();
  }
  std::string_view bytes(const Expr& e) const {
    return std::string_view(bytes_).substr(e.first, e.count);
  }
  bool overflowed() const { return overflowed_; }

 private:
  ExprId add(Expr e);
  ExprId group(Kind kind, std::span<const ExprId> parts);

  std::vector<Expr> expressions_;
  std::vector<ExprId> children_;
  std::string bytes_;
  std::vector<Rule> rules_;
  std::map<CharSet, ExprId> char_sets_;
  bool overflowed_ = false;
};

}  // namespace orrery::text
