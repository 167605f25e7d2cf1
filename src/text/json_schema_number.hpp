// Numbers between bounds, digit by digit.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "text/chat_template.hpp"
#include "text/grammar_rules.hpp"

namespace orrery::text {

// |value|: the digits before (no leading zeros but for 0 itself) and behind the point.
struct Decimal {
  bool is_negative = false;
  std::string whole = "0";
  std::string fraction;  // no trailing zeros
};

struct NumberBounds {
  std::optional<Decimal> min, max;
  bool min_excluded = false, max_excluded = false;
  std::uint32_t max_fraction = 16;  // digits; 0: integers
};

// Nothing for a value that is no number or has more than 16 digits on one side of the point.
std::optional<Decimal> decimal_of(const Json& value);

// Numbers without exponents, up to 16 digits before the point; never() where there is none.
ExprId bounded_number(GrammarRules& rules, const NumberBounds& bounds);

}  // namespace orrery::text
