// What requests ask for, before any model is there to compile it.
#include "server/forms.hpp"

#include <gtest/gtest.h>

#include "server/json.hpp"

namespace orrery::server {
namespace {

using Kind = AnswerForm::Kind;
using Choice = text::ToolRules::Choice;

Json json(std::string_view text) {
  const auto parsed = parse_json(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : Json();
}

AnswerForm openai(std::string_view body) {
  auto form = parse_form(json(body));
  EXPECT_TRUE(form) << body;
  return form ? *form : AnswerForm{};
}

std::string refused(std::string_view body) {
  const auto form = parse_form(json(body));
  return form ? "" : form.error().param;
}

constexpr std::string_view kTools =
    R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}])";

std::string with_tools(std::string_view rest) {
  return "{" + std::string(kTools) + std::string(rest) + "}";
}

TEST(AnswerForm, ResponseFormats) {
  EXPECT_EQ(openai("{}").kind, Kind::text);
  EXPECT_EQ(openai(R"({"response_format": {"type": "text"}})").kind, Kind::text);
  EXPECT_EQ(openai(R"({"response_format": {"type": "json_object"}})").kind, Kind::json_object);
  for (const std::string_view body :
       {R"({"response_format":
               {"type": "json_schema", "json_schema": {"schema": {"type": "null"}}}})",
        R"({"response_format": {"type": "json_schema", "schema": {"type": "null"}}})",
        R"({"response_format": {"type": "json_object", "schema": {"type": "null"}}})",
        R"({"json_schema": {"type": "null"}})"}) {
    const AnswerForm form = openai(body);
    EXPECT_EQ(form.kind, Kind::schema) << body;
    EXPECT_EQ(form.schema, json(R"({"type": "null"})")) << body;
  }
  EXPECT_EQ(openai(R"({"grammar": "root ::= \"a\""})").grammar, "root ::= \"a\"");
  EXPECT_EQ(refused(R"({"response_format": {"type": "yaml"}})"), "response_format");
  EXPECT_EQ(refused(R"({"response_format": {"type": "json_schema"}})"), "response_format");
  EXPECT_EQ(refused(R"({"grammar": "a", "json_schema": {}})"), "grammar");
}

TEST(AnswerForm, ChoicesOfTools) {
  EXPECT_EQ(openai(with_tools("")).kind, Kind::tools);
  EXPECT_FALSE(openai(with_tools("")).rules.parallel);
  EXPECT_EQ(openai(with_tools(R"(, "tool_choice": "auto")")).rules.choice, Choice::automatic);
  EXPECT_EQ(openai(with_tools(R"(, "tool_choice": "required")")).rules.choice, Choice::required);
  const AnswerForm none = openai(with_tools(R"(, "tool_choice": "none")"));
  EXPECT_EQ(none.kind, Kind::text);
  EXPECT_TRUE(none.tools.empty());
  const AnswerForm named =
      openai(with_tools(R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})"));
  EXPECT_EQ(named.rules.choice, Choice::required);
  EXPECT_EQ(named.rules.only, "f");
  EXPECT_EQ(refused(with_tools(R"(, "tool_choice": 5)")), "tool_choice");
  EXPECT_EQ(refused(with_tools(R"(, "json_schema": {})")), "tools");
  EXPECT_EQ(refused(R"({"tool_choice": "required"})"), "tool_choice");
  EXPECT_EQ(refused(R"({"tools": {}})"), "tools");
}

TEST(AnswerForm, AnthropicsTools) {
  const std::string tools = R"("tools": [{"name": "f", "input_schema": {"type": "object"}}])";
  const auto parse = [&](std::string_view choice) {
    return parse_anthropic_form(json("{" + tools + std::string(choice) + "}"));
  };
  const auto automatic = parse("");
  ASSERT_TRUE(automatic);
  EXPECT_EQ(automatic->tools, json(R"([{"type": "function", "function":
                                      {"name": "f", "parameters": {"type": "object"}}}])"));
  EXPECT_TRUE(automatic->rules.parallel);
  const auto named = parse(R"(, "tool_choice": {"type": "tool", "name": "f"})");
  ASSERT_TRUE(named);
  EXPECT_EQ(named->rules.only, "f");
  EXPECT_FALSE(named->rules.parallel);
  const auto any = parse(R"(, "tool_choice": {"type": "any", "disable_parallel_tool_use": false})");
  ASSERT_TRUE(any);
  EXPECT_EQ(any->rules.choice, Choice::required);
  EXPECT_TRUE(any->rules.parallel);
  EXPECT_EQ(parse(R"(, "tool_choice": {"type": "none"})")->kind, Kind::text);
  EXPECT_FALSE(parse(R"(, "tool_choice": "any")"));
  EXPECT_FALSE(parse(R"(, "tool_choice": {"type": "tool"})"));
}

TEST(AnswerForm, OllamasFormats) {
  EXPECT_EQ(parse_ollama_form(json("{}"))->kind, Kind::text);
  EXPECT_EQ(parse_ollama_form(json(R"({"format": ""})"))->kind, Kind::text);
  EXPECT_EQ(parse_ollama_form(json(R"({"format": "json"})"))->kind, Kind::json_object);
  EXPECT_EQ(parse_ollama_form(json(R"({"format": {"type": "object"}})"))->kind, Kind::schema);
  EXPECT_FALSE(parse_ollama_form(json(R"({"format": "xml"})")));
}

}  // namespace
}  // namespace orrery::server
