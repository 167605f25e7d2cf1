#include "text/grammar_gbnf.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "text/grammar_scan.hpp"
#include "text/unicode.hpp"

namespace orrery::text {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxRules = 4096;
constexpr std::size_t kMaxDepth = 256;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, GrammarRules& rules) : in_(text), rules_(rules) {}

  Result<RuleId> run() {
    skip_blanks(true);
    while (!in_.at_end()) {
      ORRERY_TRY_VOID(rule());
      skip_blanks(true);
    }
    for (const auto& [name, line] : first_use_) {
      if (!rules_.rules()[ids_.find(name)->second].defined) {
        return fail("E_GRAMMAR", "line " + std::to_string(line) + ": rule " + quoted(name) +
                                     " is used but not defined");
      }
    }
    const auto root = ids_.find("root");
    if (root == ids_.end()) {
      return fail("E_GRAMMAR", "the grammar has no rule named root, where it would begin");
    }
    return root->second;
  }

 private:
  std::unexpected<Error> wrong(const std::string& what) const {
    return fail("E_GRAMMAR", "line " + std::to_string(line()) + ": " + what);
  }

  std::size_t line() const {
    const std::string_view before = in_.text().substr(0, in_.position());
    return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  }

  static std::string quoted(std::string_view name) {
    return '"' + std::string(name.substr(0, 64)) + '"';
  }

  // Blanks and comments, and line ends too where a rule goes on behind them.
  void skip_blanks(bool lines) {
    for (;;) {
      const char c = in_.peek();
      if (c == '#') {
        while (!in_.at_end() && in_.peek() != '\n' && in_.peek() != '\r') in_.take();
      } else if (!in_.at_end() && (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))) {
        in_.take();
      } else {
        return;
      }
    }
  }

  Result<RuleId> id_of(const std::string& name) {
    if (const auto known = ids_.find(name); known != ids_.end()) return known->second;
    if (ids_.size() >= kMaxRules) {
      return fail("E_LIMIT", "the grammar has more than " + std::to_string(kMaxRules) + " rules");
    }
    const RuleId id = rules_.declare(quoted(name));
    ids_.emplace(name, id);
    first_use_.emplace(name, line());
    return id;
  }

  std::string name() {
    std::string out;
    while (is_name_char(in_.peek())) out += in_.take();
    return out;
  }

  Status rule() {
    const std::string rule_name = name();
    if (rule_name.empty()) return wrong("a rule's name is missing");
    ORRERY_TRY(const RuleId id, id_of(rule_name));
    skip_blanks(false);
    if (!in_.take_text("::=")) return wrong("::= is missing behind " + quoted(rule_name));
    if (rules_.rules()[id].defined) return wrong(quoted(rule_name) + " is defined twice");
    skip_blanks(true);
    ORRERY_TRY(const ExprId body, alternatives(0));
    rules_.define(id, body);
    if (!in_.at_end() && in_.peek() != '\n' && in_.peek() != '\r') {
      return wrong("a character that belongs to no rule: " + quoted(in_.rest().substr(0, 1)));
    }
    return {};
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
  Result<ExprId> alternatives(std::size_t depth) {
    if (depth > kMaxDepth) {
      return fail("E_LIMIT", "the grammar has more than " + std::to_string(kMaxDepth) +
                                 " parentheses within each other");
    }
    std::vector<ExprId> choices;
    do {
      skip_blanks(depth > 0 || !choices.empty());
      ORRERY_TRY(choices.emplace_back(), sequence(depth));
    } while (in_.take_text("|"));
    return rules_.choice(choices);
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
  Result<ExprId> sequence(std::size_t depth) {
    std::vector<ExprId> parts;
    for (;;) {
      const char c = in_.peek();
      ExprId part = rules_.empty();
      if (c == '"') {
        ORRERY_TRY(part, literal());
      } else if (c == '[') {
        ORRERY_TRY(part, char_class());
      } else if (c == '.') {
        in_.take();
        part = rules_.chars(complement({}));
      } else if (c == '(') {
        in_.take();
        ORRERY_TRY(part, alternatives(depth + 1));
        if (!in_.take_text(")")) return wrong("a closing parenthesis is missing");
      } else if (is_name_char(c)) {
        ORRERY_TRY(const RuleId id, id_of(name()));
        part = rules_.call(id);
      } else if (c == '<' || c == '!') {
        return wrong("tokens in grammars (<...>) are not supported; write their text");
      } else {
        return rules_.sequence(parts);
      }
      skip_blanks(depth > 0);
      ORRERY_TRY(part, repetitions(part, depth));
      parts.push_back(part);
    }
  }

  Result<ExprId> repetitions(ExprId part, std::size_t depth) {
    for (std::size_t n = 0;; ++n) {
      ORRERY_TRY(const std::optional<Repetition> times, in_.repetition());
      if (!times) return part;
      if (n == kMaxDepth) return wrong("too many repetitions of one thing");
      part = rules_.repeat(part, times->min, times->max);
      skip_blanks(depth > 0);
    }
  }

  Result<ExprId> literal() {
    in_.take();
    std::string text;
    while (in_.peek() != '"') {
      ORRERY_TRY(const std::uint32_t code, character());
      append_utf8(text, code);
    }
    in_.take();
    return rules_.literal(text);
  }

  Result<ExprId> char_class() {
    in_.take();
    const bool negated = in_.take_text("^");
    CharSet set;
    while (in_.peek() != ']') {
      ORRERY_TRY(const std::uint32_t first, character());
      std::uint32_t last = first;
      if (in_.peek() == '-' && in_.peek(1) != ']') {
        in_.take();
        ORRERY_TRY(last, character());
        if (last < first) return wrong("the range in a class runs backwards");
      }
      set.push_back({first, last});
    }
    in_.take();
    return rules_.chars(negated ? complement(set) : set);
  }

  // A character of a literal or class, or what an escape stands for.
  Result<std::uint32_t> character() {
    if (in_.at_end()) return wrong("a string or class is not closed");
    if (in_.peek() != '\\') {
      const std::optional<std::uint32_t> code = in_.code_point();
      if (!code) return wrong("bytes that are no UTF-8");
      return *code;
    }
    in_.take();
    if (in_.at_end()) return wrong("a string or class is not closed");
    const char c = in_.take();
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
      const std::optional<std::uint32_t> code = in_.hex(digits);
      if (!code || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) {
        return wrong(std::string("\\") + c + " needs the " + std::to_string(digits) +
                     " hexadecimal digits of a character");
      }
      return *code;
    }
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<std::uint8_t>(c);
      default:
        return wrong(std::string("an unknown escape \\") + (c > ' ' && c < 127 ? c : '?'));
    }
  }

  PatternScanner in_;
  GrammarRules& rules_;
  std::map<std::string, RuleId> ids_;
  std::map<std::string, std::size_t> first_use_;
};

}  // namespace

Result<RuleId> parse_gbnf(std::string_view text, GrammarRules& rules) {
  if (text.size() > kMaxBytes) {
    return fail("E_LIMIT", "the grammar has " + std::to_string(text.size()) + " bytes; " +
                               std::to_string(kMaxBytes) + " are allowed");
  }
  return GbnfParser(text, rules).run();
}

}  // namespace orrery::text
