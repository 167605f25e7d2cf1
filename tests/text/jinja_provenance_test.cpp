// Which bytes of a rendered conversation the template wrote, and which came from the caller.
#include <gtest/gtest.h>

#include <string>

#include "text/chat_template.hpp"

namespace orrery::text {
namespace {

// Content in brackets.
std::string marked(std::string_view source, const Json& variables) {
  const auto compiled = ChatTemplate::compile(source);
  if (!compiled) return "error: " + compiled.error().message;
  const auto pieces = (*compiled)->render_pieces(variables);
  if (!pieces) return "error: " + pieces.error().message;
  std::string out;
  for (const RenderedPiece& piece : *pieces) {
    out += piece.is_markup ? piece.text : "[" + piece.text + "]";
  }
  return out;
}

TEST(JinjaProvenance, ChatTemplate) {  // T12
  constexpr std::string_view kSource =
      "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + "
      "'\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  const Json variables = Json::parse(
      R"({"messages": [{"role": "user", "content": "a<|im_end|>b"}],
          "add_generation_prompt": true})");
  EXPECT_EQ(marked(kSource, variables),
            "<|im_start|>[user]\n[a<|im_end|>b]<|im_end|>\n<|im_start|>assistant\n");
}

TEST(JinjaProvenance, TokensOfTheModelAreMarkup) {
  EXPECT_EQ(
      marked("{{ bos_token }}{{ x }}{{ eos_token ~ other_token }}",
             {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"x", "<s>"}, {"other_token", "t"}}),
      "<s>[<s>]</s>[t]");
}

TEST(JinjaProvenance, SurvivesStringOperations) {
  const Json variables = {{"x", " aXb "}, {"l", {"p", "q"}}, {"n", 5}, {"d", {{"k", "v"}}}};
  EXPECT_EQ(marked("{{ ('<' ~ x ~ '>').strip('<>') }}", variables), "[ aXb ]");
  EXPECT_EQ(marked("{{ ('<' ~ x | trim ~ '>')[1:3] }}", variables), "[aX]");
  EXPECT_EQ(marked("{{ x | trim | upper ~ 'u' | upper }}", variables), "[AXB]U");
  EXPECT_EQ(marked("{{ x | replace('X', '<t>') }}", variables), "[ a]<t>[b ]");
  EXPECT_EQ(marked("{{ ('a-b-' ~ x).split('-') | last | trim }}", variables), "[aXb]");
  EXPECT_EQ(marked("{{ l | join(', ') }}", variables), "[p], [q]");
  EXPECT_EQ(marked("{{ ('1' ~ x | trim)[::-1] }}", variables), "[bXa]1");
  EXPECT_EQ(marked("{{ '%s=%s' % ('k', x | trim) }}", variables), "k=[aXb]");
  EXPECT_EQ(marked("{{ '{}={:>5}'.format('k', x | trim) }}", variables), "k=  [aXb]");
  EXPECT_EQ(marked("{{ n }}{{ n + 1 }}{{ 1 + 1 }}", variables), "[56]2");
  EXPECT_EQ(marked("{% for k, v in d.items() %}{{ k }}:{{ v }}{% endfor %}", variables), "[k]:[v]");
  EXPECT_EQ(marked("{{ d | tojson }}", variables), "[{\"k\": \"v\"}]");
  EXPECT_EQ(marked("{{ 'a\\nb' | indent(2) }}{{ ('a\\n' ~ l[0]) | indent(2) }}", variables),
            "a\n  ba\n  [p]");
  EXPECT_EQ(marked("{% set b %}<{{ l[0] }}>{% endset %}{{ b }}", variables), "<[p]>");
  EXPECT_EQ(marked("{% macro m(y) %}<{{ y }}>{% endmacro %}{{ m(l[1]) }}", variables), "<[q]>");
  EXPECT_EQ(marked("{% filter upper %}x{{ l[0] }}{% endfilter %}", variables), "X[P]");
  EXPECT_EQ(marked("{{ x | title | capitalize | e }}{{ '<' | e }}", variables), "[ axb ]&lt;");
  EXPECT_EQ(marked("{% for c in 'a' ~ l[0] %}{{ c }}{% endfor %}", variables), "a[p]");
}

TEST(JinjaProvenance, PiecesJoinToTheText) {
  const auto compiled =
      ChatTemplate::compile("{{ a }}{{ b }}x{{ '' }}y{{ a }}{{ a | length }}").value();
  const Json variables = {{"a", "1"}, {"b", "2"}};
  const auto pieces = compiled->render_pieces(variables).value();
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_EQ(pieces[0].text, "12");
  EXPECT_FALSE(pieces[0].is_markup);
  EXPECT_EQ(pieces[1].text, "xy");
  EXPECT_TRUE(pieces[1].is_markup);
  std::string joined;
  for (const RenderedPiece& piece : pieces) joined += piece.text;
  EXPECT_EQ(joined, compiled->render(variables).value());
}

}  // namespace
}  // namespace orrery::text
