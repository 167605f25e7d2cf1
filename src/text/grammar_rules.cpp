#include "text/grammar_rules.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "text/unicode.hpp"

namespace orrery::text {
namespace {

constexpr std::uint32_t kLastCode = 0x10FFFF;

// The ranges of one length in bytes, surrogates left out.
constexpr std::array<CharRange, 5> kLengths = {
    {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kLastCode}}};

// Splits a range of code points of one length until each byte is a range of its own.
void utf8_sequences(GrammarRules& rules, CharRange range, std::vector<ExprId>& out) {
  std::string first;
  std::string last;
  append_utf8(first, range.first);
  append_utf8(last, range.last);
  for (std::size_t i = 1; i < first.size(); ++i) {
    const std::uint32_t mask = (std::uint32_t{1} << (6 * i)) - 1;  // what the last i bytes hold
    if ((range.first & ~mask) == (range.last & ~mask)) continue;
    if ((range.first & mask) != 0) {
      utf8_sequences(rules, {range.first, range.first | mask}, out);
      return utf8_sequences(rules, {(range.first | mask) + 1, range.last}, out);
    }
    if ((range.last & mask) != mask) {
      utf8_sequences(rules, {range.first, (range.last & ~mask) - 1}, out);
      return utf8_sequences(rules, {range.last & ~mask, range.last}, out);
    }
  }
  std::vector<ExprId> bytes;
  for (std::size_t i = 0; i < first.size(); ++i) {
    bytes.push_back(
        rules.byte(static_cast<std::uint8_t>(first[i]), static_cast<std::uint8_t>(last[i])));
  }
  out.push_back(rules.sequence(bytes));
}

}  // namespace

CharSet normalized(CharSet set) {
  std::sort(set.begin(), set.end());
  CharSet out;
  for (const CharRange& range : set) {
    if (range.first > range.last) continue;
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CharSet complement(const CharSet& set) {
  CharSet out;
  std::uint32_t next = 0;
  CharSet taken = set;
  taken.push_back({0xD800, 0xDFFF});
  for (const CharRange& range : normalized(std::move(taken))) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCode) out.push_back({next, kLastCode});
  return out;
}

CharSet intersection(const CharSet& a, const CharSet& b) {
  CharSet out;
  for (const CharRange& x : a) {
    for (const CharRange& y : b) {
      if (x.first <= y.last && y.first <= x.last) {
        out.push_back({std::max(x.first, y.first), std::min(x.last, y.last)});
      }
    }
  }
  return normalized(std::move(out));
}

GrammarRules::GrammarRules() {
  expressions_.push_back({});
  expressions_.push_back({.kind = Kind::never});
}

ExprId GrammarRules::add(Expr e) {
  if (expressions_.size() >= kMaxExpressions || children_.size() >= 2 * kMaxExpressions ||
      bytes_.size() >= 8 * kMaxExpressions) {
    overflowed_ = true;
    return never();
  }
  expressions_.push_back(e);
  return static_cast<ExprId>(expressions_.size() - 1);
}

ExprId GrammarRules::literal(std::string_view bytes) {
  if (bytes.empty()) return empty();
  const auto first = static_cast<std::uint32_t>(bytes_.size());
  const ExprId id = add(
      {.kind = Kind::literal, .first = first, .count = static_cast<std::uint32_t>(bytes.size())});
  if (id != never()) bytes_ += bytes;
  return id;
}

ExprId GrammarRules::byte(std::uint8_t low, std::uint8_t high) {
  return add({.kind = Kind::byte, .low = low, .high = high});
}

ExprId GrammarRules::group(Kind kind, std::span<const ExprId> parts) {
  const auto first = static_cast<std::uint32_t>(children_.size());
  const ExprId id =
      add({.kind = kind, .first = first, .count = static_cast<std::uint32_t>(parts.size())});
  if (id != never()) children_.insert(children_.end(), parts.begin(), parts.end());
  return id;
}

ExprId GrammarRules::sequence(std::span<const ExprId> parts) {
  std::vector<ExprId> kept;
  for (const ExprId part : parts) {
    if (part == never()) return never();
    if (part != empty()) kept.push_back(part);
  }
  if (kept.empty()) return empty();
  return kept.size() == 1 ? kept[0] : group(Kind::sequence, kept);
}

ExprId GrammarRules::choice(std::span<const ExprId> parts) {
  std::vector<ExprId> kept;
  for (const ExprId part : parts) {
    if (part != never()) kept.push_back(part);
  }
  if (kept.empty()) return never();
  return kept.size() == 1 ? kept[0] : group(Kind::choice, kept);
}

ExprId GrammarRules::repeat(ExprId body, std::uint32_t min, std::uint32_t max) {
  if (min > max) return never();
  if (max == 0 || body == empty()) return empty();
  if (body == never()) return min == 0 ? empty() : never();
  if (min == 1 && max == 1) return body;
  return add({.kind = Kind::repeat, .first = body, .count = 1, .min = min, .max = max});
}

ExprId GrammarRules::chars(const CharSet& set) {
  const CharSet key = intersection(normalized(set), {{0, 0xD7FF}, {0xE000, kLastCode}});
  if (const auto known = char_sets_.find(key); known != char_sets_.end()) return known->second;
  std::vector<ExprId> parts;
  for (const CharRange& length : kLengths) {
    for (const CharRange& range : intersection(key, {length})) utf8_sequences(*this, range, parts);
  }
  const ExprId id = choice(parts);
  char_sets_.emplace(key, id);
  return id;
}

ExprId GrammarRules::special(std::string_view token) {
  return literal(kSpecialByte + std::string(token));
}

RuleId GrammarRules::declare(std::string name) {
  rules_.push_back({.name = std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

void GrammarRules::define(RuleId rule, ExprId body) {
  rules_[rule].body = body;
  rules_[rule].defined = true;
}

ExprId GrammarRules::call(RuleId rule) {
  return add({.kind = Kind::call, .first = rule});
}

ExprId GrammarRules::rule(std::string name, ExprId body) {
  const RuleId id = declare(std::move(name));
  define(id, body);
  return call(id);
}

}  // namespace orrery::text
