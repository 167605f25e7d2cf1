// The parts of JSON as rules: white space, strings, numbers, any value, given values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/chat_template.hpp"
#include "text/grammar_rules.hpp"

namespace orrery::text {

// Between tokens of JSON a space may stand, or one or two line ends and up to 20 blanks: enough for
// indented texts, and no model can go on with blanks for ever.
class JsonText {
 public:
  explicit JsonText(GrammarRules& rules) : rules_(rules) {}

  GrammarRules& rules() { return rules_; }
  ExprId space();
  // `text` and then space().
  ExprId mark(std::string_view text);
  ExprId character();  // of a string, in any spelling
  ExprId string();
  ExprId integer();  // up to 16 digits
  ExprId number();   // up to 16 digits before and behind the point, exponents to 99
  ExprId object();   // any
  ExprId array();    // any
  ExprId value();    // any
  // A given value; within arrays and objects with space().
  ExprId literal(const Json& value);
  // A string that is none of these.
  ExprId string_except(std::span<const std::string> names);

 private:
  struct NameNode;
  ExprId name_rest(const NameNode& node);
  ExprId literal_at(const Json& value, int depth);
  ExprId once(std::optional<RuleId>& known, const char* name, ExprId (JsonText::*make)());
  ExprId make_space();
  ExprId make_string();
  ExprId make_object();
  ExprId make_array();
  ExprId make_value();

  GrammarRules& rules_;
  std::optional<RuleId> space_, string_, object_, array_, value_;
  std::optional<ExprId> character_, other_;
};

}  // namespace orrery::text
