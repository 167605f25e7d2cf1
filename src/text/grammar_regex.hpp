// ECMAScript patterns, as JSON Schema uses them, as rules.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "text/grammar_rules.hpp"

namespace orrery::text {

struct RegexOptions {
  bool search = false;       // the pattern may match in the middle: ^ and $ hold it to the ends
  bool json_string = false;  // characters are spelled as within a JSON string
};

// Matches of the whole text (or of texts that hold a match). Groups, classes, alternatives and
// repetitions (lazy ones too); ^ and $ at the ends of the pattern or of its alternatives. E_GRAMMAR
// names the column of what is wrong or not supported: look-around, back references, \b, \p, flags.
// E_LIMIT above 256 levels of groups.
Result<ExprId> parse_regex(std::string_view pattern, GrammarRules& rules,
                           const RegexOptions& options);

// The characters of a set as a JSON string spells them.
ExprId json_chars(GrammarRules& rules, const CharSet& set);

}  // namespace orrery::text
