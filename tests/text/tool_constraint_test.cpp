// What a model may write when it was offered tools; the reply parser reads what comes of it.
#include "text/tool_constraint.hpp"

#include <gtest/gtest.h>

#include "text/grammar_support.hpp"

namespace orrery::text {
namespace {

Grammars& grammars() {
  static Grammars kGrammars(test::piece_tokenizer());
  return kGrammars;
}

Json tool(const std::string& name, const char* parameters) {
  return {{"type", "function"},
          {"function", {{"name", name}, {"parameters", Json::parse(parameters)}}}};
}

Json two_tools() {
  return Json::array({tool("f", R"({"type":"object","properties":{"a":{"type":"integer"}},
                                    "required":["a"]})"),
                      tool("g", R"({"type":"object","properties":{}})")});
}

bool accepts(const ToolFormat& format, const ToolRules& rules, const std::string& text,
             const Json& tools = two_tools()) {
  const auto made = tool_constraint(grammars(), format, tools, rules);
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return made && test::accepts(*made->source, text);
}

constexpr const char* kCallF =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
constexpr const char* kCallG = "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";

TEST(ToolConstraint, RequiredCallsAreNothingElse) {
  const ToolRules required{.choice = ToolRules::Choice::required};
  EXPECT_TRUE(accepts({}, required, kCallF));
  EXPECT_TRUE(accepts({}, required, kCallG));
  EXPECT_FALSE(accepts({}, required, "Hello"));
  EXPECT_FALSE(accepts({}, required, ""));
  EXPECT_FALSE(
      accepts({}, required, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(accepts({}, required, "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}"));
  EXPECT_FALSE(accepts({}, required, std::string(kCallF) + "\n" + kCallG));
  const ToolRules parallel{.choice = ToolRules::Choice::required, .parallel = true};
  EXPECT_TRUE(accepts({}, parallel, std::string(kCallF) + "\n" + kCallG));
  const ToolRules named{.choice = ToolRules::Choice::required, .only = "g"};
  EXPECT_TRUE(accepts({}, named, kCallG));
  EXPECT_FALSE(accepts({}, named, kCallF));
}

TEST(ToolConstraint, AutomaticCallsAreHeldFromTheMarkOn) {
  EXPECT_TRUE(accepts({}, {}, "Hello <tool> < <tool_cal you"));
  EXPECT_TRUE(accepts({}, {}, std::string("I call <<") + kCallF));
  EXPECT_FALSE(accepts({}, {}, "I call <tool_call>nothing"));
  EXPECT_FALSE(accepts({}, {}, std::string(kCallF) + " and so"));
  ToolFormat bare;
  bare.open.clear();
  bare.close.clear();
  bare.arguments_key = "parameters";
  EXPECT_TRUE(accepts(bare, {}, "Hello"));
  EXPECT_TRUE(accepts(bare, {}, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}"));
  EXPECT_FALSE(accepts(bare, {}, "{\"a\": 1}"));
}

TEST(ToolConstraint, ReasoningComesBeforeRequiredCalls) {
  ToolFormat format;
  format.reasoning_open = "<think>";
  format.reasoning_close = "</think>";
  const ToolRules required{.choice = ToolRules::Choice::required};
  EXPECT_TRUE(accepts(format, required, std::string("<think>so</think>\n") + kCallF));
  EXPECT_TRUE(accepts(format, required, kCallF));
  EXPECT_FALSE(accepts(format, required, "<think>so</think>\nHello"));
  ToolRules inside = required;
  inside.starts_in_reasoning = true;
  EXPECT_TRUE(accepts(format, inside, std::string("so </thin</think>") + kCallF));
  EXPECT_FALSE(accepts(format, inside, "so"));
}

TEST(ToolConstraint, MarksThatAreSpecialTokens) {
  ToolFormat format;
  format.shape = ToolFormat::Shape::list;
  format.open = "[CALLS]";
  format.close.clear();
  const auto& tokenizer = *test::piece_tokenizer();
  EXPECT_EQ(special_marks(format, tokenizer), std::vector{tokenizer.find("[CALLS]")});
  const auto made = tool_constraint(grammars(), format, two_tools(), {});
  ASSERT_TRUE(made);
  const auto constraint = made->source->start();
  ASSERT_TRUE(constraint->accept('H'));
  EXPECT_FALSE(test::allows(constraint->allowed(), tokenizer.find("<s>")));
  ASSERT_TRUE(constraint->accept(tokenizer.find("[CALLS]")));
  for (const TokenId id : tokenizer.encode("[{\"name\": \"g\", \"arguments\": {}}]", {})) {
    ASSERT_TRUE(constraint->accept(id)) << tokenizer.piece(id);
  }
  EXPECT_TRUE(constraint->is_finished());
}

TEST(ToolConstraint, AnOddToolCostsTheOthersNothing) {
  Json tools = two_tools();
  tools.push_back(tool("odd", R"({"type":"object","properties":{"x":{"not":{}}}})"));
  tools.push_back({{"type", "function"}, {"function", {{"name", "none"}}}});
  tools.push_back(
      {{"type", "function"}, {"function", {{"name", "null"}, {"parameters", nullptr}}}});
  const auto made = tool_constraint(grammars(), {}, tools, {});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->notes.size(), 1U);
  EXPECT_TRUE(made->notes[0].starts_with("odd: $.properties.x.not")) << made->notes[0];
  EXPECT_TRUE(test::accepts(*made->source, kCallF));
  EXPECT_TRUE(test::accepts(
      *made->source, "<tool_call>{\"name\": \"odd\", \"arguments\": {\"x\": [1]}}</tool_call>"));
}

TEST(ToolConstraint, WrongListsAreRefused) {
  const auto kind = [](const Json& tools, const ToolRules& rules = {}) {
    const auto made = tool_constraint(grammars(), {}, tools, rules);
    return made ? std::string_view("none") : made.error().kind;
  };
  EXPECT_EQ(kind(Json::array()), "E_TOOLS");
  EXPECT_EQ(kind("x"), "E_TOOLS");
  EXPECT_EQ(kind(Json::array({1})), "E_TOOLS");
  EXPECT_EQ(kind(Json::array({tool("../../x", "{}")})), "E_TOOLS");
  EXPECT_EQ(kind(Json::array({tool("", "{}")})), "E_TOOLS");
  EXPECT_EQ(kind(Json::array({tool(std::string(10240, 'x'), "{}")})), "E_TOOLS");
  EXPECT_EQ(kind(Json::array({tool("a", "{}"), tool("a", "{}")})), "E_TOOLS");
  EXPECT_EQ(kind(Json(std::vector<Json>(129, tool("a", "{}")))), "E_TOOLS");
  EXPECT_EQ(kind(two_tools(), {.choice = ToolRules::Choice::required, .only = "h"}), "E_TOOLS");
}

}  // namespace
}  // namespace orrery::text
