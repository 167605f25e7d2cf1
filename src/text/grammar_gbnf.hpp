// llama.cpp's grammar notation (GBNF).
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "text/grammar_rules.hpp"

namespace orrery::text {

// Adds the grammar's rules and returns the one named "root". At most 256 KiB, 256 levels of
// parentheses and 4096 rules (E_LIMIT); E_GRAMMAR says in which line what is wrong.
Result<RuleId> parse_gbnf(std::string_view text, GrammarRules& rules);

}  // namespace orrery::text
