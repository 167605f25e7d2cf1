// Templates and conversations that mean harm: bounded, reported, never a crash (the catalogue of
// the manual numbers them T01 to T20).
#include <gtest/gtest.h>

#include <string>

#include "text/chat_template.hpp"

namespace orrery::text {
namespace {

Result<std::string> render(std::string_view source, const Json& variables = Json::object(),
                           const RenderLimits& limits = {}) {
  ORRERY_TRY(const auto compiled, ChatTemplate::compile(source));
  return compiled->render(variables, limits);
}

void expect_error(std::string_view source, std::string_view kind, std::string_view part,
                  const Json& variables = Json::object()) {
  const auto rendered = render(source, variables);
  ASSERT_FALSE(rendered.has_value()) << source.substr(0, 200) << " gave " << rendered->size();
  EXPECT_EQ(rendered.error().kind, kind) << rendered.error().message;
  EXPECT_NE(rendered.error().message.find(part), std::string::npos)
      << source.substr(0, 200) << ": " << rendered.error().message;
}

std::string repeat(std::string_view unit, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += unit;
  return out;
}

TEST(JinjaHostile, RangesAreBounded) {  // T01
  expect_error("{% for i in range(10**9) %}{% endfor %}", "E_RENDER", "100000 items");
  expect_error("{{ range(0, 10**18, 3) | length }}", "E_RENDER", "100000 items");
  EXPECT_EQ(render("{{ range(100000) | length }}").value(), "100000");
  expect_error("{{ range(100001) | length }}", "E_RENDER", "100000 items");
}

TEST(JinjaHostile, StepsAreBounded) {  // T02
  expect_error("{% for i in range(25000) %}{% for j in range(25000) %}{% endfor %}{% endfor %}",
               "E_RENDER", "steps");
  expect_error("{{ range(100000) | map('string') | list | join | replace('1', '22') * 100000 }}",
               "E_RENDER", "16 MiB");
  RenderLimits limits;
  limits.max_steps = 40;
  EXPECT_TRUE(render("{% for i in range(3) %}{{ i }}{% endfor %}", Json::object(), limits));
  EXPECT_FALSE(render("{% for i in range(30) %}{{ i }}{% endfor %}", Json::object(), limits));
}

TEST(JinjaHostile, OutputIsBounded) {
  RenderLimits limits;
  limits.max_output_bytes = 8;
  EXPECT_EQ(render("{{ 'x' * 8 }}", Json::object(), limits).value(), "xxxxxxxx");
  EXPECT_FALSE(render("{{ 'x' * 9 }}", Json::object(), limits));
  EXPECT_FALSE(render("123456789", Json::object(), limits));
}

TEST(JinjaHostile, CapturesAreBounded) {
  expect_error("{% macro m(n) %}{{ 'x' * 8000000 }}{{ m(n) }}{% endmacro %}{{ m(1) }}", "E_RENDER",
               "32 MiB");
  // One after the other they are free again.
  EXPECT_EQ(render("{% for i in range(5) %}{% set x %}{{ 'x' * 8000000 }}{% endset %}{% endfor %}y")
                .value(),
            "y");
}

TEST(JinjaHostile, RecursionIsBounded) {  // T03
  expect_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "E_RENDER", "deep");
  expect_error("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "E_RENDER", "deep");
  expect_error(
      "{% macro a(x) %}{% if x %}{{ b([x]) }}{% endif %}{% endmacro %}"
      "{% macro b(x) %}{% for y in x %}{{ a(y) }}{% endfor %}{% endmacro %}{{ a(1) }}",
      "E_RENDER", "deep");
}

TEST(JinjaHostile, NestingOfTheSourceIsBounded) {  // T04
  expect_error(repeat("{% if true %}", 10'000) + repeat("{% endif %}", 10'000), "E_TEMPLATE",
               "128 levels");
  expect_error("{{ " + repeat("(", 10'000) + "1" + repeat(")", 10'000) + " }}", "E_TEMPLATE",
               "128 levels");
  expect_error("{{ " + repeat("[", 10'000) + repeat("]", 10'000) + " }}", "E_TEMPLATE",
               "128 levels");
  expect_error("{{ " + repeat("not ", 10'000) + "1 }}", "E_TEMPLATE", "128 levels");
  expect_error("{{ " + repeat("-", 10'000) + "1 }}", "E_TEMPLATE", "128 levels");
  expect_error("{{ 1" + repeat(" + 1", 10'000) + " }}", "E_TEMPLATE", "too many parts");
  expect_error("{{ x" + repeat(".a", 10'000) + " }}", "E_TEMPLATE", "too many parts");
  expect_error("{{ x" + repeat(" if 1 else x", 10'000) + " }}", "E_TEMPLATE", "128 levels");
  expect_error("{% set " + repeat("(", 10'000) + "x" + repeat(")", 10'000) + " = 1 %}",
               "E_TEMPLATE", "128 levels");
  EXPECT_EQ(render("{{ " + repeat("(", 100) + "1" + repeat(")", 100) + " }}").value(), "1");
}

TEST(JinjaHostile, SourceIsBounded) {
  expect_error(std::string((1U << 20) + 1, 'x'), "E_TEMPLATE", "1 MiB");
  EXPECT_EQ(render(std::string(1U << 20, 'x')).value().size(), 1U << 20);
  expect_error("{{ [" + repeat("1,", 100'001) + "] }}", "E_TEMPLATE", "100000 nodes");
}

TEST(JinjaHostile, StringsAndMemoryAreBounded) {  // T05, T06
  expect_error("{{ 'a' * 10**10 }}", "E_RENDER", "16 MiB");
  std::string doubling = "{% set x = 'ab' %}";
  doubling += repeat("{% set x = x ~ x %}", 60);
  expect_error(doubling, "E_RENDER", "16 MiB");
  expect_error("{% set x = [0] %}" + repeat("{% set x = x + x %}", 60), "E_RENDER", "memory");
  // 2**60 items on paper, 60 lists in memory: printing it must stop.
  const std::string shared = "{% set x = [0] %}" + repeat("{% set x = [x, x] %}", 60);
  expect_error(shared + "{{ x }}", "E_RENDER", "");
  expect_error(shared + "{{ x | tojson }}", "E_RENDER", "");
  expect_error(shared + "{% set y = [0] %}" + repeat("{% set y = [y, y] %}", 60) + "{{ x == y }}",
               "E_RENDER", "steps");
  expect_error(
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}",
      "E_RENDER", "256 deep");
  expect_error("{{ '%1000000000d' % 1 }}", "E_RENDER", "wider");
  expect_error("{{ '{:1000000000}'.format(1) }}", "E_RENDER", "wider");
  expect_error("{{ 'x'.center(10**12) }}", "E_RENDER", "wider");
}

// A chain of a hundred thousand objects must not be destroyed by recursion.
TEST(JinjaHostile, LongChainsOfObjectsDie) {
  const std::string loop = "{% for i in range(100000) %}";
  const std::string start = "{% set ns = namespace(x=0) %}";
  EXPECT_TRUE(render(start + loop + "{% set ns.x = namespace(y=ns.x) %}{% endfor %}"));
  EXPECT_TRUE(render(start + loop + "{% set ns.x = {'a': ns.x}.get %}{% endfor %}"));
  EXPECT_TRUE(render(start + loop + "{% set ns.x = cycler(ns.x) %}{% endfor %}{% set ns.x = 1 %}"));
  EXPECT_TRUE(render(start + loop +
                     "{% set y = ns.x %}{% macro m() %}{{ y }}{% endmacro %}"
                     "{% set ns.x = m %}{% endfor %}{% set ns.x = 1 %}"));
}

TEST(JinjaHostile, NothingOfTheHostIsReachable) {  // T07, T08
  EXPECT_EQ(render("{{ ''['__class__'] }}|{{ ().__class__ }}").value(), "|");
  expect_error("{{ ().__class__.__mro__ }}", "E_RENDER", "undefined");
  expect_error("{{ cycler.__init__.__globals__ }}", "E_RENDER", "undefined");
  expect_error("{% include '/etc/passwd' %}", "E_TEMPLATE", "include");
  expect_error("{% import 'os' as os %}", "E_TEMPLATE", "import");
  expect_error("{% extends 'x' %}", "E_TEMPLATE", "extends");
}

TEST(JinjaHostile, BrokenSourceNamesItsPlace) {  // T09
  expect_error("a\nb {{ x", "E_TEMPLATE", "line 2");
  expect_error("{% if x", "E_TEMPLATE", "line 1");
  expect_error("\n\n{# comment", "E_TEMPLATE", "line 3, column 1");
  expect_error("{{ 'abc }}", "E_TEMPLATE", "string");
  expect_error("{% raw %}x", "E_TEMPLATE", "raw");
  expect_error("line\n  {{ 1 + }}", "E_TEMPLATE", "line 2, column 10");
  expect_error("{{ 99999999999999999999 }}", "E_TEMPLATE", "out of range");
  expect_error("{{ x | nofilter }}", "E_TEMPLATE", "nofilter");
}

TEST(JinjaHostile, MessagesOfExceptionsAreCut) {  // T10
  expect_error("{{ raise_exception('only user and assistant') }}", "E_RENDER",
               "only user and assistant");
  const auto rendered = render("{{ raise_exception('x' * 10 * 1024 * 1024) }}");
  ASSERT_FALSE(rendered.has_value());
  EXPECT_LE(rendered.error().message.size(), 600U);
  EXPECT_NE(rendered.error().message.find(std::string(500, 'x')), std::string::npos);
}

TEST(JinjaHostile, ContentIsNeverTemplate) {  // T11
  const Json variables = {{"x", "{{ 7*7 }} {% if %} ${TMPDIR:-x} {# c"}};
  EXPECT_EQ(render("{{ x }}", variables).value(), "{{ 7*7 }} {% if %} ${TMPDIR:-x} {# c");
}

TEST(JinjaHostile, OddConversations) {  // T14, T18
  const std::string_view loop = "{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(render(loop, {{"messages", Json::array()}}).value(), "");
  EXPECT_EQ(render(loop, Json::parse(R"({"messages":[{"content":null},{"content":1.5}]})")).value(),
            "None1.5");
  EXPECT_EQ(render(loop, Json::parse(R"({"messages":[{"content":[["a"]]}, {}]})")).value(),
            "[['a']]");
  EXPECT_FALSE(render(loop, Json::parse(R"({"messages":[null, {}, 3]})")).has_value() &&
               render(loop, {{"messages", 5}}).has_value());
  Json many = Json::array();
  for (int i = 0; i < 100'000; ++i) many.push_back({{"role", "user"}, {"content", "x"}});
  const auto rendered = render(loop, {{"messages", many}});
  EXPECT_TRUE(rendered ? rendered->size() == 100'000 : rendered.error().kind == "E_RENDER");
  Json deep = Json::array();
  for (int i = 0; i < 10'000; ++i) {
    Json outer = Json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  EXPECT_FALSE(render("{{ x }}", {{"x", std::move(deep)}}));
  const std::string bytes("\xff\xfe\0\xe2\x80\xa8\xed\xa0\x80\xc3", 10);
  EXPECT_EQ(render("{{ x }}", {{"x", bytes}}).value(), bytes);
  EXPECT_EQ(render("{{ x | upper | lower | trim | replace('q', 'r') }}", {{"x", bytes}}).value(),
            bytes);
  EXPECT_TRUE(render("{{ [x] }}{{ x | tojson }}{{ x | title }}{{ x[3:7] }}", {{"x", bytes}}));
  expect_error("x", "E_RENDER", "object", Json::array());
}

TEST(JinjaHostile, WrongTypesAreErrors) {  // T15
  for (const std::string_view source :
       {"{{ 5 | join }}", "{{ [1][::0] }}", "{{ 1 % 0 }}", "{{ 1 // 0 }}", "{{ 1.0 / 0 }}",
        "{{ 'x' % 1 }}", "{{ 10 ** 400 }}", "{{ 9223372036854775807 + 1 }}",
        "{{ -9223372036854775807 - 2 }}", "{{ 2 ** 63 }}", "{{ 1e300 * 1e300 | int }}",
        "{{ ('9' * 30) | int }}", "{{ {[]: 1} }}", "{{ 'a'.split('') }}", "{{ 'a' | replace }}",
        "{{ [1] | batch }}", "{{ [1] | slice(0) | list }}"}) {
    expect_error(source, "E_RENDER", "");
  }
  EXPECT_EQ(render("{{ [1][10**18] }}{{ 'abc'[-(10**18)] }}{{ [1, 2][-(10**18):10**18] }}").value(),
            "[1, 2]");
  EXPECT_EQ(render("{{ [1, 2, 3][::-9223372036854775807] }}").value(), "[3]");
}

TEST(JinjaHostile, MixedTypesDoNotCompare) {  // T16
  expect_error("{{ [1, 'a', none] | sort }}", "E_RENDER", "");
  expect_error("{{ [1, 'a'] | max }}", "E_RENDER", "");
  expect_error("{{ [{'a': 1}, {'a': 'x'}] | groupby('a') }}", "E_RENDER", "");
  expect_error("{{ [[1]] | unique | list }}", "E_RENDER", "set");
  EXPECT_EQ(render("{{ [1, 'a', none, 'A', 1.0] | unique | list }}").value(), "[1, 'a', None]");
}

TEST(JinjaHostile, ANamespaceThatHoldsItself) {  // T17
  const std::string knot = "{% set ns = namespace() %}{% set ns.self = ns %}";
  expect_error(knot + "{{ ns | tojson }}", "E_RENDER", "JSON");
  expect_error(knot + "{{ ns }}", "E_RENDER", "deep");
  expect_error(knot + "{{ [ns] | tojson }}", "E_RENDER", "JSON");
  EXPECT_EQ(render(knot + "{{ ns == ns.self }}").value(), "True");
}

TEST(JinjaHostile, TheClockCanBeSet) {  // T19
  RenderLimits limits;
  limits.now_unix_seconds = 1'700'000'000;
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y %H:%M') }}", Json::object(), limits).value(),
            "14 Nov 2023 22:13");
  EXPECT_FALSE(render("{{ strftime_now('x' * 300) }}"));
  EXPECT_FALSE(render("{{ strftime_now(1) }}"));
}

}  // namespace
}  // namespace orrery::text
