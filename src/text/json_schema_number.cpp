#include "text/json_schema_number.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

namespace orrery::text {
namespace {

constexpr std::size_t kMaxDigits = 16;

// Of the digits of two magnitudes: whether a is below, equal to or above b.
int compare(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (const int order = a.whole.compare(b.whole); order != 0) return order;
  return a.fraction.compare(b.fraction);
}

bool is_zero(const Decimal& value) {
  return value.whole == "0" && value.fraction.empty();
}

// Magnitudes from `low` to `high` (none: no bound) that have `length` digits before the point.
class Magnitudes {
 public:
  struct Range {
    Decimal low;
    bool low_excluded = false;
    std::optional<Decimal> high;
    bool high_excluded = false;
  };

  Magnitudes(GrammarRules& rules, const Range& range, std::uint32_t max_fraction)
      : rules_(rules), range_(range), max_fraction_(max_fraction) {}

  ExprId run() {
    std::vector<ExprId> choices;
    const std::size_t longest = range_.high ? range_.high->whole.size() : kMaxDigits;
    for (length_ = range_.low.whole.size(); length_ <= longest; ++length_) {
      known_.clear();
      const bool at_high = range_.high && length_ == longest;
      choices.push_back(digits(0, length_ == range_.low.whole.size(), at_high));
    }
    return rules_.choice(choices);
  }

 private:
  std::size_t last() const { return length_ + max_fraction_; }

  std::uint8_t digit(const Decimal& value, std::size_t at) const {
    if (at < length_) return static_cast<std::uint8_t>(value.whole[at]);
    at -= length_;
    return at < value.fraction.size() ? static_cast<std::uint8_t>(value.fraction[at]) : '0';
  }

  bool only_zeros_from(const Decimal& value, std::size_t at) const {
    for (std::size_t i = at; i < length_ + value.fraction.size(); ++i) {
      if (digit(value, i) != '0') return false;
    }
    return true;
  }

  // Whether the digits so far, with zeros behind them, are a number of the range. `at_low`: they
  // are those of the lower bound.
  bool may_end(std::size_t at, bool at_low, bool at_high) const {
    if (at_low && (!only_zeros_from(range_.low, at) || range_.low_excluded)) return false;
    return !at_high || !range_.high_excluded || !only_zeros_from(*range_.high, at);
  }

  // What may follow `at` digits.
  // NOLINTNEXTLINE(misc-no-recursion): at most 32 digits
  ExprId digits(std::size_t at, bool at_low, bool at_high) {
    const auto key = std::make_tuple(at, at_low, at_high);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    std::vector<ExprId> choices;
    const bool in_fraction = at > length_;
    if (at >= length_ && may_end(at, at_low, at_high)) choices.push_back(rules_.empty());
    if (at < last()) {
      const ExprId next = next_digit(at, at_low, at_high);
      const bool needs_point = at == length_ && !in_fraction;
      choices.push_back(needs_point ? rules_.sequence({rules_.literal("."), next}) : next);
    }
    const ExprId out = rules_.choice(choices);
    // A rule, so that the many ways to come here share it.
    const ExprId shared =
        out == rules_.never() || out == rules_.empty() ? out : rules_.rule("number", out);
    known_.emplace(key, shared);
    return shared;
  }

  // NOLINTNEXTLINE(misc-no-recursion): at most 32 digits
  ExprId next_digit(std::size_t at, bool at_low, bool at_high) {
    const std::uint8_t least = at == 0 && length_ > 1 ? '1' : '0';
    const std::uint8_t low = at_low ? digit(range_.low, at) : least;
    const std::uint8_t high = at_high ? digit(*range_.high, at) : '9';
    std::vector<ExprId> choices;
    const auto add = [&](std::uint8_t first, std::uint8_t end, bool tight_low, bool tight_high) {
      if (first > end) return;
      choices.push_back(
          rules_.sequence({rules_.byte(first, end), digits(at + 1, tight_low, tight_high)}));
    };
    if (low == high) {
      add(low, high, at_low, at_high);
      return rules_.choice(choices);
    }
    if (low > high) return rules_.never();
    if (at_low) add(low, low, true, false);
    if (at_high) add(high, high, false, true);
    add(static_cast<std::uint8_t>(low + (at_low ? 1 : 0)),
        static_cast<std::uint8_t>(high - (at_high ? 1 : 0)), false, false);
    return rules_.choice(choices);
  }

  GrammarRules& rules_;
  const Range& range_;
  std::size_t max_fraction_;
  std::size_t length_ = 0;
  std::map<std::tuple<std::size_t, bool, bool>, ExprId> known_;
};

ExprId magnitudes(GrammarRules& rules, const Magnitudes::Range& range, std::uint32_t fraction) {
  if (range.high) {
    const int order = compare(range.low, *range.high);
    const bool excluded = range.low_excluded || range.high_excluded;
    if (order > 0 || (order == 0 && excluded)) return rules.never();
  }
  return Magnitudes(rules, range, fraction).run();
}

}  // namespace

std::optional<Decimal> decimal_of(const Json& value) {
  std::array<char, 512> text{};
  std::to_chars_result end{};
  if (value.is_number_unsigned()) {
    end = std::to_chars(text.data(), text.data() + text.size(), value.get<std::uint64_t>());
  } else if (value.is_number_integer()) {
    end = std::to_chars(text.data(), text.data() + text.size(), value.get<std::int64_t>());
  } else if (value.is_number_float() && std::isfinite(value.get<double>())) {
    end = std::to_chars(text.data(), text.data() + text.size(), value.get<double>(),
                        std::chars_format::fixed);
  } else {
    return std::nullopt;
  }
  if (end.ec != std::errc{}) return std::nullopt;
  std::string digits(text.data(), end.ptr);
  Decimal out;
  out.is_negative = digits.starts_with('-');
  if (out.is_negative) digits.erase(0, 1);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  out.whole = digits.substr(0, point);
  if (point < digits.size()) out.fraction = digits.substr(point + 1);
  while (out.fraction.ends_with('0')) out.fraction.pop_back();
  if (out.whole.size() > kMaxDigits || out.fraction.size() > kMaxDigits) return std::nullopt;
  if (is_zero(out)) out.is_negative = false;
  return out;
}

ExprId bounded_number(GrammarRules& rules, const NumberBounds& bounds) {
  std::vector<ExprId> choices;
  const std::uint32_t fraction = bounds.max_fraction;
  if (!bounds.min || bounds.min->is_negative) {
    // Below zero the bounds change places; 0 is spelled without a sign.
    Magnitudes::Range below;
    below.low_excluded = true;
    if (bounds.max && bounds.max->is_negative) {
      below.low = *bounds.max;
      below.low_excluded = bounds.max_excluded;
    }
    below.high = bounds.min;
    below.high_excluded = bounds.min_excluded;
    choices.push_back(rules.sequence({rules.literal("-"), magnitudes(rules, below, fraction)}));
  }
  if (!bounds.max || !bounds.max->is_negative) {
    Magnitudes::Range above;
    if (bounds.min && !bounds.min->is_negative) {
      above.low = *bounds.min;
      above.low_excluded = bounds.min_excluded;
    }
    above.high = bounds.max;
    above.high_excluded = bounds.max_excluded;
    choices.push_back(magnitudes(rules, above, fraction));
  }
  return rules.choice(choices);
}

}  // namespace orrery::text
