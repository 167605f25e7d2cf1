#include "text/grammar_regex.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar_scan.hpp"

namespace orrery::text {
namespace {

constexpr std::size_t kMaxDepth = 256;

const CharSet kDigits = {{'0', '9'}};
const CharSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharSet kSpace = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                        {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class RegexParser {
 public:
  RegexParser(std::string_view pattern, GrammarRules& rules, const RegexOptions& options)
      : in_(pattern), rules_(rules), options_(options) {}

  Result<ExprId> run() {
    ORRERY_TRY(const ExprId whole, alternatives(0));
    if (!in_.at_end()) return wrong("a closing parenthesis without an opening one");
    return whole;
  }

 private:
  std::unexpected<Error> wrong(const std::string& what) const {
    return fail("E_GRAMMAR", "the pattern, byte " + std::to_string(in_.position()) + ": " + what);
  }

  ExprId chars(const CharSet& set) {
    return options_.json_string ? json_chars(rules_, set) : rules_.chars(set);
  }

  ExprId anything() {
    if (!anything_) anything_ = rules_.repeat(chars(complement({})), 0, kUnbounded);
    return *anything_;
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
  Result<ExprId> alternatives(std::size_t depth) {
    if (depth > kMaxDepth) {
      return fail("E_LIMIT", "the pattern has more than " + std::to_string(kMaxDepth) +
                                 " groups within each other");
    }
    std::vector<ExprId> choices;
    do {
      ORRERY_TRY(choices.emplace_back(), sequence(depth));
    } while (in_.take_text("|"));
    return rules_.choice(choices);
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
  Result<ExprId> sequence(std::size_t depth) {
    std::vector<ExprId> parts;
    const bool is_outer = depth == 0;
    if (is_outer && !in_.take_text("^") && options_.search) parts.push_back(anything());
    while (!in_.at_end() && in_.peek() != '|' && in_.peek() != ')') {
      if (in_.peek() == '$') {
        in_.take();
        const bool at_end = in_.at_end() || in_.peek() == '|';
        if (!is_outer || !at_end) return wrong("$ is supported at the end of the pattern only");
        return rules_.sequence(parts);
      }
      ORRERY_TRY(const ExprId part, repeated(depth));
      parts.push_back(part);
    }
    if (is_outer && options_.search) parts.push_back(anything());
    return rules_.sequence(parts);
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
  Result<ExprId> repeated(std::size_t depth) {
    ORRERY_TRY(const ExprId part, atom(depth));
    ORRERY_TRY(const std::optional<Repetition> times, in_.repetition());
    if (!times) return part;
    in_.take_text("?");  // lazy: the same texts
    if (std::string_view("*+?{").contains(in_.peek()) && !in_.at_end()) {
      return wrong("nothing to repeat");
    }
    return rules_.repeat(part, times->min, times->max);
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
  Result<ExprId> atom(std::size_t depth) {
    const char c = in_.peek();
    switch (c) {
      case '(':
        return group(depth);
      case '[':
        in_.take();
        return char_class();
      case '.':
        in_.take();
        return chars(complement(kLineEnds));
      case '\\': {
        ORRERY_TRY(const CharSet set, escape(false));
        return chars(set);
      }
      case '*':
      case '+':
      case '?':
      case '{':
        return wrong("nothing to repeat");
      case '^':
        return wrong("^ is supported at the beginning of the pattern only");
      default:
        break;
    }
    const std::optional<std::uint32_t> code = in_.code_point();
    if (!code) return wrong("bytes that are no UTF-8");
    return chars({{*code, *code}});
  }

  // NOLINTNEXTLINE(misc-no-recursion): kMaxDepth
  Result<ExprId> group(std::size_t depth) {
    in_.take();
    if (in_.take_text("?") && !in_.take_text(":")) {
      const bool is_named = in_.peek() == '<' && in_.peek(1) != '=' && in_.peek(1) != '!';
      if (!is_named) return wrong("look-around and flags are not supported");
      while (!in_.at_end() && in_.peek() != '>') in_.take();
      if (!in_.take_text(">")) return wrong("the name of a group is not closed");
    }
    ORRERY_TRY(const ExprId body, alternatives(depth + 1));
    if (!in_.take_text(")")) return wrong("a closing parenthesis is missing");
    return body;
  }

  Result<ExprId> char_class() {
    const bool negated = in_.take_text("^");
    CharSet set;
    while (in_.at_end() || in_.peek() != ']') {
      if (in_.at_end()) return wrong("a class is not closed");
      ORRERY_TRY(const CharSet first, class_member());
      if (in_.peek() != '-' || in_.peek(1) == ']') {
        set.insert(set.end(), first.begin(), first.end());
        continue;
      }
      in_.take();
      if (in_.at_end()) return wrong("a class is not closed");
      ORRERY_TRY(const CharSet last, class_member());
      const bool is_range = is_single(first) && is_single(last) && first[0].first <= last[0].first;
      if (!is_range) return wrong("a range of a class runs backwards or has no ends");
      set.push_back({first[0].first, last[0].first});
    }
    in_.take();
    return chars(negated ? complement(set) : normalized(std::move(set)));
  }

  static bool is_single(const CharSet& set) {
    return set.size() == 1 && set[0].first == set[0].last;
  }

  Result<CharSet> class_member() {
    if (in_.peek() == '\\') return escape(true);
    const std::optional<std::uint32_t> code = in_.code_point();
    if (!code) return wrong("bytes that are no UTF-8");
    return CharSet{{*code, *code}};
  }

  Result<CharSet> escape(bool in_class) {
    in_.take();
    if (in_.at_end()) return wrong("a backslash at the end");
    const char c = in_.take();
    const auto one = [](std::uint32_t code) { return CharSet{{code, code}}; };
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return complement(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return complement(kWord);
      case 's':
        return kSpace;
      case 'S':
        return complement(kSpace);
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'v':
        return one('\v');
      case 'f':
        return one('\f');
      case 'r':
        return one('\r');
      case 'x':
      case 'u': {
        ORRERY_TRY(const std::uint32_t code, hex_escape(c));
        return one(code);
      }
      default:
        break;
    }
    if (c == 'b' && in_class) return one('\b');
    if (c == '0' && !(in_.peek() >= '0' && in_.peek() <= '9')) return one(0);
    const bool is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_word || static_cast<std::uint8_t>(c) >= 0x80) {
      return wrong("this escape is not supported");
    }
    return one(static_cast<std::uint8_t>(c));
  }

  // \xHH, \uHHHH, \u{H...}, and two \u that are one character.
  Result<std::uint32_t> hex_escape(char kind) {
    std::optional<std::uint32_t> code;
    if (kind == 'u' && in_.take_text("{")) {
      const std::size_t digits = in_.rest().find('}');
      if (digits > 0 && digits <= 6) code = in_.hex(digits);
      if (!in_.take_text("}")) code.reset();
    } else {
      code = in_.hex(kind == 'x' ? 2 : 4);
    }
    if (code && *code >= 0xD800 && *code < 0xDC00 && in_.take_text("\\u")) {
      const std::optional<std::uint32_t> low = in_.hex(4);
      const bool is_pair = low && *low >= 0xDC00 && *low < 0xE000;
      code = is_pair ? std::optional(0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00))
                     : std::nullopt;
    }
    if (!code || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) {
      return wrong("an escape that is no character");
    }
    return *code;
  }

  PatternScanner in_;
  GrammarRules& rules_;
  RegexOptions options_;
  std::optional<ExprId> anything_;
};

}  // namespace

Result<ExprId> parse_regex(std::string_view pattern, GrammarRules& rules,
                           const RegexOptions& options) {
  return RegexParser(pattern, rules, options).run();
}

ExprId json_chars(GrammarRules& rules, const CharSet& set) {
  const CharSet plain = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};
  const CharSet wanted = normalized(set);
  std::vector<ExprId> choices = {rules.chars(intersection(wanted, plain))};
  constexpr std::pair<char, const char*> kShort[] = {
      {'"', R"(\")"},  {'\\', R"(\\)"}, {'\b', R"(\b)"}, {'\t', R"(\t)"},
      {'\n', R"(\n)"}, {'\f', R"(\f)"}, {'\r', R"(\r)"}};
  const auto has = [&](std::uint32_t code) {
    return !intersection(wanted, {{code, code}}).empty();
  };
  for (const auto& [c, spelling] : kShort) {
    if (has(static_cast<std::uint8_t>(c))) choices.push_back(rules.literal(spelling));
  }
  for (const std::uint32_t high : {0U, 1U}) {
    CharSet digits;
    for (std::uint32_t low = 0; low < 16; ++low) {
      if (!has(high * 16 + low)) continue;
      digits.push_back({static_cast<std::uint8_t>("0123456789abcdef"[low]),
                        static_cast<std::uint8_t>("0123456789abcdef"[low])});
      if (low >= 10) digits.push_back({'A' + low - 10, 'A' + low - 10});
    }
    if (digits.empty()) continue;
    choices.push_back(
        rules.sequence({rules.literal(high == 0 ? R"(\u000)" : R"(\u001)"), rules.chars(digits)}));
  }
  return rules.choice(choices);
}

}  // namespace orrery::text
