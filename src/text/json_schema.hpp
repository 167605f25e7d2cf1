// JSON Schema (the part of draft 2020-12 in docs/structured-output.md) as rules.
#pragma once

#include "base/result.hpp"
#include "text/chat_template.hpp"
#include "text/grammar_rules.hpp"
#include "text/json_text.hpp"

namespace orrery::text {

// E_SCHEMA above 64 levels, E_LIMIT above 200,000 values; to be asked before anything else.
Status check_schema_size(const Json& schema);

// The JSON texts that fit the schema. E_SCHEMA names the place; E_LIMIT where the schema says too
// much.
Result<ExprId> schema_value(const Json& schema, JsonText& json);

// The same as the one rule of a grammar.
Result<RuleId> schema_rules(const Json& schema, GrammarRules& rules);

}  // namespace orrery::text
