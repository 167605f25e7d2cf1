// Constraints that benchmarks hold texts to, of every kind that clients ask for.
#pragma once

#include <string>
#include <vector>

#include "text/grammar.hpp"
#include "text/tool_constraint.hpp"

namespace orrery::bench {

struct ConstraintCase {
  const char* name;
  const char* text;  // one that fits
  Result<text::Grammars::Source> (*compile)(text::Grammars&);
};

// Twenty properties, as a form has them.
inline text::Json wide_schema() {
  text::Json properties = text::Json::object();
  for (int i = 0; i < 5; ++i) {
    const std::string n = std::to_string(i);
    properties["name_" + n] = {{"type", "string"}};
    properties["count_" + n] = {{"type", "integer"}, {"minimum", 0}, {"maximum", 5000}};
    properties["kind_" + n] = {{"enum", {"red", "green", "blue"}}};
    properties["tags_" + n] = {{"type", "array"}, {"items", {{"type", "string"}}}};
  }
  text::Json required = text::Json::array();
  for (const auto& item : properties.items()) required.push_back(item.key());
  return {{"type", "object"}, {"properties", properties}, {"required", required}};
}

inline const std::vector<ConstraintCase>& constraint_cases() {
  static const std::vector<ConstraintCase> kCases = {
      {"any JSON",
       R"({"name": "Ada Lovelace", "born": 1815, "tags": ["math", "engine"], "x": {"y": [1, 2]}})",
       [](text::Grammars& grammars) { return grammars.json_object(); }},
      {"20 properties",
       R"({"name_0": "Ada Lovelace, London", "count_0": 36, "kind_0": "red", "tags_0": ["a, b"],
  "name_1": "the second of them", "count_1": 1200, "kind_1": "green", "tags_1": [],
  "name_2": "Zoe", "count_2": 0, "kind_2": "blue", "tags_2": ["x", "y"], "name_3": "caf\u00e9",
  "count_3": 7, "kind_3": "red", "tags_3": ["long texts go here"], "name_4": "", "count_4": 4999,
  "kind_4": "blue", "tags_4": ["end"]})",
       [](text::Grammars& grammars) { return grammars.json_schema(wide_schema()); }},
      {"string lengths",
       R"({"a": "It was a bright cold day in April, and the clocks were striking thirteen."})",
       [](text::Grammars& grammars) {
         return grammars.json_schema(text::Json::parse(
             R"({"type":"object","properties":{"a":{"type":"string","minLength":10,
                 "maxLength":120}},"required":["a"]})"));
       }},
      {"pattern", "Order 2024-0815-AB of Lovelace, Ada: 12 x pencil, 3 x paper; thank you",
       [](text::Grammars& grammars) {
         return grammars.regex(
             "Order \\d{4}-\\d{4}-[A-Z]{2} of \\w+(, \\w+)*: (\\d+ x \\w+(, )?)+; [^;]{1,200}");
       }},
      {"arithmetic", "(12 + x_1) * (3 - 4 / y) = 17 * (a + b + c)\n1 + 1 = 2\n",
       [](text::Grammars& grammars) {
         return grammars.gbnf(
             "root ::= (expr \" = \" expr \"\\n\")+\n"
             "expr ::= term ((\" + \" | \" - \") term)*\n"
             "term ::= factor ((\" * \" | \" / \") factor)*\n"
             "factor ::= [a-z] [a-z0-9_]* | [0-9]+ | \"(\" expr \")\"\n");
       }},
      {"tool calls",
       "I look it up. <tool_call>\n{\"name\": \"fill_form\", \"arguments\": {\"city\": \"Paris, "
       "France\", \"unit\": \"celsius\"}}\n</tool_call>",
       [](text::Grammars& grammars) -> Result<text::Grammars::Source> {
         const auto tools = text::Json::parse(
             R"([{"type":"function","function":{"name":"fill_form","parameters":{"type":"object",
                 "properties":{"city":{"type":"string"},"unit":{"enum":["celsius","kelvin"]}},
                 "required":["city","unit"]}}}])");
         ORRERY_TRY(auto made, text::tool_constraint(grammars, {}, tools, {}));
         return std::move(made.source);
       }}};
  return kCases;
}

}  // namespace orrery::bench
