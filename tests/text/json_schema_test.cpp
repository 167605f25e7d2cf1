// Schemas: what fits is let through, what does not fit is not, and what cannot be held is refused.
#include <gtest/gtest.h>

#include "text/grammar.hpp"
#include "text/grammar_support.hpp"

namespace orrery::text {
namespace {

Grammars& grammars() {
  static Grammars kGrammars(test::piece_tokenizer());
  return kGrammars;
}

void check(const char* schema, std::vector<const char*> fit, std::vector<const char*> do_not) {
  const auto source = grammars().json_schema(Json::parse(schema));
  ASSERT_TRUE(source) << schema << ": " << source.error().message;
  for (const char* text : fit) EXPECT_TRUE(test::accepts(**source, text)) << schema << " " << text;
  for (const char* text : do_not) {
    EXPECT_FALSE(test::accepts(**source, text)) << schema << " " << text;
  }
}

std::string refused(const char* schema) {
  const Json json = Json::parse(schema, nullptr, false);
  const auto source = grammars().json_schema(json);
  return source ? "" : std::string(source.error().kind) + " " + source.error().message;
}

TEST(JsonSchema, Types) {
  check(R"({"type":"integer"})", {"0", "-12", "7"}, {"01", "1.5", "\"1\"", "-", "1e3"});
  check(R"({"type":"number"})", {"0.5", "1e5", "-2.50E-3"}, {".5", "1.", "1e", "true"});
  check(R"({"type":["string","null"]})", {"\"x\"", "null", R"("\u00e9\n\ud83d\ude00")"},
        {"1", R"("\ud800")", "\"\n\"", R"("\x")"});
  check(R"({"type":"boolean"})", {"true", "false"}, {"null", "tru"});
  check("true", {"{\"a\": [1, {}]}", "[]", "\"\""}, {"{a:1}", "[1,]", "{\"a\":1,}"});
  check(R"({"type":"object"})", {"{}", "{\"a\":{\"b\":[]}}", "{\n  \"a\": 1\n}"}, {"[]", "1"});
}

TEST(JsonSchema, PropertiesInTheirOrder) {
  const char* const kSchema =
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},
          "c":{"type":"null"}},"required":["b"]})";
  check(kSchema, {R"({"b":"x"})", R"({"a":1,"b":""})", R"({"a": 1, "b": "", "c": null})"},
        {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":"x","d":1})", R"({"b":"x",})",
         R"({"b":"x","b":"y"})"});
  check(R"({"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"boolean"}})",
        {"{}", R"({"a":1,"x":true})", R"({"x":true,"ab":false,"":true})"},
        {R"({"a":true})", R"({"x":1})", R"({"x":true,"a":true})"});
  check(R"({"type":"object","additionalProperties":{"type":"integer"},"maxProperties":2})",
        {"{}", R"({"x":1})", R"({"x":1,"y":2})"}, {R"({"x":1,"y":2,"z":3})", R"({"x":""})"});
  check(R"({"type":"object","patternProperties":{"^x_":{"type":"integer"}},
            "additionalProperties":false})",
        {"{}", R"({"x_1":1})"}, {R"({"y":1})"});
}

TEST(JsonSchema, Arrays) {
  check(R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
        {"[1,2]", "[1, 2, 3]"}, {"[]", "[1]", "[1,2,3,4]", "[1,]"});
  check(R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"minItems":1})",
        {"[1]", "[1,\"x\"]"}, {"[]", "[\"x\"]", "[1,\"x\",2]"});
  check(R"({"prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":3})",
        {"[1,null,null]"}, {"[1,null]", "[1,2,3]"});
  check(R"({"type":"array","maxItems":0})", {"[]", "[ ]"}, {"[1]"});
  check(R"({"type":"array","minItems":1000000000})", {}, {"[]", "[1]"});
}

TEST(JsonSchema, Strings) {
  check(R"({"type":"string","minLength":2,"maxLength":3})", {R"("ab")", R"("\u00e9\"c")"},
        {R"("a")", R"("abcd")"});
  check(R"({"type":"string","maxLength":3})", {"\"\xF0\x9F\x98\x80\xC3\xA9t\""}, {});
  check(R"({"pattern":"^[a-z]+\\d?$"})", {R"("abc1")"}, {R"("1")", R"("")", R"("abc12")"});
  check(R"({"pattern":"b"})", {R"("abc")", R"("b")"}, {R"("ac")"});
  check(R"({"pattern":"^\".$"})", {R"("\"x")"}, {R"("x")"});
  check(R"({"pattern":"^[a-z]+$","maxLength":2})", {R"("ab")"}, {R"("")", R"("abc")"});
  check(R"({"type":"string","format":"date"})", {R"("2024-02-28")"}, {R"("2024-13-01")"});
  check(R"({"type":"string","format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"},
        {R"("123e4567")"});
  check(R"({"type":"string","format":"of its own"})", {R"("x")"}, {});
}

TEST(JsonSchema, NumbersBetweenBounds) {
  for (const auto& [low, high] : std::vector<std::pair<int, int>>{
           {0, 9}, {5, 120}, {-20, 15}, {-300, -7}, {99, 1000}, {0, 0}, {-1, -1}, {100, 100}}) {
    const auto source =
        grammars().json_schema(Json{{"type", "integer"}, {"minimum", low}, {"maximum", high}});
    ASSERT_TRUE(source);
    for (int n = -1100; n <= 1100; n += (n > -130 && n < 130) ? 1 : 7) {
      EXPECT_EQ(test::accepts(**source, std::to_string(n)), n >= low && n <= high) << n;
    }
  }
  check(R"({"type":"number","minimum":0.25,"exclusiveMaximum":1})",
        {"0.25", "0.5", "0.999", "0.250"}, {"0", "0.2", "1", "1.0", "0.2499", "-0.5"});
  check(R"({"type":"number","exclusiveMinimum":0})", {"0.001", "12.5"}, {"0", "0.0", "-1"});
  check(R"({"type":"integer","exclusiveMinimum":3})", {"4", "10", "31"}, {"3", "0", "03"});
  check(R"({"type":"number","multipleOf":0.01})", {"1", "1.2", "-1.25"}, {"1.255"});
}

TEST(JsonSchema, GivenValuesAndChoices) {
  check(R"({"enum":["a",1,null,{"x":[1,2]}]})", {"\"a\"", "1", "null", "{\"x\": [1, 2]}"},
        {"\"b\"", "2"});
  check(R"({"const":"x\"y"})", {R"("x\"y")"}, {R"("x")"});
  check(R"({"type":"string","enum":["a",1]})", {"\"a\""}, {"1"});
  check(R"({"anyOf":[{"type":"integer"},{"type":"array","items":false}]})", {"1", "[]"}, {"[1]"});
  check(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},
            "anyOf":[{"required":["a"]},{"required":["b"]}]})",
        {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":2})"}, {"{}"});
  check(R"({"type":"integer","nullable":true})", {"1", "null"}, {"\"\""});
}

TEST(JsonSchema, ReferencesAndAllOf) {
  check(R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":
            {"v":{"type":"integer"},"next":{"$ref":"#/$defs/t"}},"required":["v"]}}})",
        {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3}}})"}, {R"({"v":1,"next":{}})", "{}"});
  check(R"({"allOf":[{"properties":{"a":{"type":"integer","minimum":3}},"required":["a"]},
            {"properties":{"a":{"maximum":5},"b":{"type":"string"}}}],"type":"object"})",
        {R"({"a":3})", R"({"a":5,"b":""})"}, {R"({"a":6})", R"({"a":2})", R"({"b":""})"});
  check(R"({"$ref":"#/definitions/a~1b%20c","definitions":{"a/b c":{"type":"null"}},
            "description":"x"})",
        {"null"}, {"1"});
  check(R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]"});
}

TEST(JsonSchema, WhatCannotBeHeldIsRefusedByItsPlace) {
  const std::vector<std::pair<const char*, const char*>> kCases = {
      {R"({"properties":{"x":{"type":"strin"}}})", "E_SCHEMA $.properties.x.type: names no JSON"},
      {R"({"properties":{"x":{"items":{"not":{}}}}})", "E_SCHEMA $.properties.x.items.not: "},
      {R"({"type":1})", "E_SCHEMA $.type"},
      {R"({"properties":"x"})", "E_SCHEMA $.properties"},
      {R"({"required":[1]})", "E_SCHEMA $.required"},
      {R"({"enum":[]})", "E_SCHEMA $.enum"},
      {R"({"minLength":3,"maxLength":2})", "E_SCHEMA $.minLength"},
      {R"({"minLength":-1})", "E_SCHEMA $.minLength"},
      {R"({"minLength":1.5})", "E_SCHEMA $.minLength"},
      {R"({"multipleOf":0})", "E_SCHEMA $.multipleOf"},
      {R"({"minimum":"1"})", "E_SCHEMA $.minimum"},
      {R"({"minimum":3,"maximum":2})", "E_SCHEMA $: no number"},
      {R"x({"pattern":"(?=a)"})x", "E_SCHEMA $.pattern"},
      {R"({"pattern":"^ab$","minLength":1})", "E_SCHEMA $.pattern"},
      {R"({"$ref":"http://169.254.169.254/"})", "E_SCHEMA $.$ref: only references"},
      {R"({"$ref":"#/definitions/../.."})", "E_SCHEMA $.$ref: names nothing"},
      {R"({"$ref":"#"})", "E_SCHEMA $: a $ref leads back"},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})",
       "E_SCHEMA $: a $ref leads back"},
      {R"({"allOf":[{"$ref":"#"}]})", "E_SCHEMA $"},
      {R"({"uniqueItems":true,"type":"array"})", "E_SCHEMA $.uniqueItems"},
      {R"(["x"])", "E_SCHEMA $: is no schema"},
      {R"({"anyOf":{}})", "E_SCHEMA $.anyOf"},
      {R"({"type":"object","required":["a"],"additionalProperties":false})", "E_SCHEMA $"}};
  for (const auto& [schema, error] : kCases) {
    EXPECT_TRUE(refused(schema).starts_with(error)) << schema << ": " << refused(schema);
  }
  std::string deep = "true";
  for (int i = 0; i < 10000; ++i) deep = "{\"items\":" + deep + "}";
  EXPECT_TRUE(refused(deep.c_str()).starts_with("E_SCHEMA $: is more than 64"));
  Json large{{"enum", Json::array()}};
  for (int i = 0; i < 100'000; ++i) large["enum"].push_back("value " + std::to_string(i));
  const auto source = grammars().json_schema(large);
  EXPECT_TRUE(source || source.error().kind == "E_LIMIT") << source.error().message;
}

TEST(JsonSchema, RandomTextsAreJson) {
  std::mt19937 random(1);
  const auto source = grammars().json_object();
  ASSERT_TRUE(source);
  int ended = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string text = test::random_text(**source, random, 40);
    if (text.empty()) continue;
    ++ended;
    EXPECT_TRUE(Json::accept(text)) << text;
  }
  EXPECT_GT(ended, 3);
}

}  // namespace
}  // namespace orrery::text
