#include "text/tool_marks.hpp"

#include <algorithm>

namespace orrery::text {

ExprId MarkRules::mark(std::string_view text) {
  std::vector<ExprId> parts;
  while (!text.empty()) {
    std::size_t length = text.size();
    while (length > 0 && !is_special(text.substr(0, length))) --length;
    if (length > 0) {
      parts.push_back(rules_.special(text.substr(0, length)));
      text.remove_prefix(length);
      continue;
    }
    std::size_t plain = 1;  // up to where the next special one begins
    while (plain < text.size() && !begins_special(text.substr(plain))) ++plain;
    parts.push_back(rules_.literal(text.substr(0, plain)));
    text.remove_prefix(plain);
  }
  return rules_.sequence(parts);
}

bool MarkRules::is_special(std::string_view text) const {
  const TokenId id = tokenizer_.find(text);
  return id != kNoToken && tokenizer_.is_special(id);
}

bool MarkRules::begins_special(std::string_view text) const {
  for (std::size_t n = 3; n <= text.size(); ++n) {
    if (is_special(text.substr(0, n))) return true;
  }
  return false;
}

ExprId MarkRules::text_until(const std::string& stop, ExprId then, bool may_end) {
  bool has_special = false;
  for (std::size_t i = 0; i < stop.size() && !has_special; ++i) {
    has_special = begins_special(std::string_view(stop).substr(i));
  }
  if (has_special) {  // the special token stands in no other text
    const ExprId any = rules_.repeat(free_token(stop), 0, kUnbounded);
    const ExprId rest = rules_.sequence({mark(stop), then});
    return rules_.sequence({any, may_end ? rules_.optional(rest) : rest});
  }
  // One rule for each number of bytes of `stop` that the text ends with.
  std::vector<RuleId> states;
  for (std::size_t i = 0; i < stop.size(); ++i) states.push_back(rules_.declare("text"));
  for (std::size_t i = 0; i < stop.size(); ++i) define_text(states, i, stop, then, may_end);
  return rules_.call(states[0]);
}

void MarkRules::define_text(const std::vector<RuleId>& states, std::size_t at,
                            const std::string& stop, ExprId then, bool may_end) {
  const auto after = [&](char byte) {
    std::string tail = stop.substr(0, at) + byte;
    while (!tail.empty() && !stop.starts_with(tail)) tail.erase(0, 1);
    return tail.size();
  };
  std::string known = stop;
  std::sort(known.begin(), known.end(), [](char a, char b) {
    return static_cast<std::uint8_t>(a) < static_cast<std::uint8_t>(b);
  });
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::vector<ExprId> choices;
  if (may_end) choices.push_back(rules_.empty());
  int next = 0;
  for (const char c : known) {
    const int byte = static_cast<std::uint8_t>(c);
    if (byte > next) choices.push_back(plain(next, byte - 1, states[0]));
    next = byte + 1;
    const std::size_t to = after(c);
    const ExprId rest = to == stop.size() ? then : rules_.call(states[to]);
    choices.push_back(rules_.sequence({rules_.literal(std::string_view(&c, 1)), rest}));
  }
  if (next < 0xFF) choices.push_back(plain(next, 0xFE, states[0]));
  for (const std::string& text : format_specials(stop)) {
    choices.push_back(rules_.sequence({rules_.special(text), rules_.call(states[0])}));
  }
  rules_.define(states[at], rules_.choice(choices));
}

ExprId MarkRules::plain(int first, int last, RuleId then) {
  return rules_.sequence(
      {rules_.byte(static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)),
       rules_.call(then)});
}

std::vector<std::string> MarkRules::format_specials(const std::string& but) const {
  std::vector<std::string> out;
  for (const std::string& text : {format_.reasoning_open, format_.reasoning_close}) {
    if (!text.empty() && text != but && is_special(text)) out.push_back(text);
  }
  for (const std::string& text : format_.decoration) {
    if (is_special(text)) out.push_back(text);
  }
  return out;
}

ExprId MarkRules::free_token(const std::string& but) {
  std::vector<ExprId> choices = {rules_.byte(0, 0xFE)};
  for (const std::string& text : format_specials(but)) choices.push_back(rules_.special(text));
  return rules_.choice(choices);
}

}  // namespace orrery::text
