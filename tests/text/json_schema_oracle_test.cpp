// Schemas and patterns beside Python's jsonschema and re: what the mask lets through fits, and what
// fits is let through.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <sstream>
#include <string>

#include "support/paths.hpp"
#include "support/temp_dir.hpp"
#include "text/grammar.hpp"
#include "text/grammar_support.hpp"

namespace orrery::text {
namespace {

constexpr int kNoJsonschema = 77;

constexpr const char* kSchemas[] = {
    R"({"type":"object"})",
    R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":4})",
    R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},
        "required":["b"],"additionalProperties":false})",
    R"({"type":"object","properties":{"a":{"type":"integer"},"ab":{"type":"null"}},
        "additionalProperties":{"type":"boolean"}})",
    R"({"type":"object","additionalProperties":{"type":"integer"},"minProperties":1,
        "maxProperties":3})",
    R"({"type":"object","patternProperties":{"^a+$":{"type":"boolean"}},
        "additionalProperties":false})",
    R"({"type":"string","minLength":3,"maxLength":5})",
    R"({"type":"string","pattern":"^[a-c]{2,3}(-\\d+)?$"})",
    R"({"type":"string","pattern":"^[^a-z]*$"})",
    R"({"type":"string","pattern":"^[a-z ]+$","minLength":2,"maxLength":4})",
    R"({"type":"string","format":"date"})",
    R"({"type":"string","format":"ipv4"})",
    R"({"type":"string","format":"uuid"})",
    R"({"type":"integer","minimum":-17,"maximum":1234})",
    R"({"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":101})",
    R"({"type":"integer","maximum":-5})",
    R"({"type":"number","minimum":0.125,"maximum":33.5})",
    R"({"type":"number","exclusiveMinimum":-2.5,"exclusiveMaximum":0})",
    R"({"type":["integer","null","string"],"maxLength":2})",
    R"({"enum":["a","a\"b",12,-0.5,null,{"x":[true,{}]},[]]})",
    R"({"const":{"k":"v"}})",
    R"({"anyOf":[{"type":"integer","minimum":100},{"type":"array","items":{"type":"null"}}]})",
    R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},
        "anyOf":[{"required":["a"]},{"required":["b"]}]})",
    R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer","minimum":3}},
        "required":["a"]},{"properties":{"a":{"maximum":5},"b":{"type":"string"}}}]})",
    R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":
        {"v":{"type":"integer"},"next":{"$ref":"#/$defs/tree"}},"required":["v"]}}})",
    R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],
        "items":{"type":"boolean"},"minItems":3})"};

// What a Python script of tests/text prints; nothing where it needs a package that is not there.
std::optional<std::string> output_of(const std::string& script_and_arguments) {
  const std::string command =
      "python3 '" + orrery::test::source_dir() + "/tests/text/'" + script_and_arguments;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) text += static_cast<char>(c);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoJsonschema) return std::nullopt;
  EXPECT_EQ(status, 0) << command;
  return text;
}

#define ORRERY_NEEDS_JSONSCHEMA(output) \
  if (!(output)) GTEST_SKIP() << "needs the Python package jsonschema (tests/requirements.txt)"

// A line for each text that does not fit its schema.
std::optional<std::string> misfits(const std::string& lines) {
  const orrery::test::TempDir folder;
  return output_of("schema_oracle.py '" + folder.write("texts", lines) + "'");
}

// Adds random texts of a constraint to the lines for misfits().
int add_texts(const ConstraintSource& source, const Json& schema, std::mt19937& random, int count,
              std::string& lines) {
  int added = 0;
  for (int i = 0; i < count; ++i) {
    const std::string text = test::random_text(source, random, 2 * static_cast<std::size_t>(i));
    if (text.empty()) continue;
    EXPECT_TRUE(Json::accept(text)) << schema << ": " << text;
    lines += Json{{"schema", schema}, {"text", text}}.dump() + "\n";
    ++added;
  }
  return added;
}

TEST(JsonSchemaOracle, RandomTextsFitTheirSchemas) {
  std::mt19937 random(7);
  Grammars grammars(test::piece_tokenizer());
  std::string lines;
  for (const char* schema : kSchemas) {
    const Json json = Json::parse(schema);
    const auto source = grammars.json_schema(json);
    ASSERT_TRUE(source) << schema << ": " << source.error().message;
    EXPECT_GT(add_texts(**source, json, random, 10, lines), 0) << schema;
  }
  const auto found = misfits(lines);
  ORRERY_NEEDS_JSONSCHEMA(found);
  EXPECT_EQ(*found, "");
}

// Byte by byte, to the end.
bool takes(const ConstraintSource& source, std::string_view text) {
  const auto constraint = source.start();
  for (const char c : text) {
    if (!constraint->accept(static_cast<std::uint8_t>(c))) return false;
  }
  return constraint->accept(test::piece_tokenizer()->special().eos).has_value();
}

// ORRERY_SEED and ORRERY_CASES make another, longer run.
std::string cases_of(const std::string& kind, int count) {
  const char* seed = std::getenv("ORRERY_SEED");
  const char* cases = std::getenv("ORRERY_CASES");
  return "constraint_cases.py " + kind + " " + (seed == nullptr ? "1" : seed) + " " +
         (cases == nullptr ? std::to_string(count) : cases);
}

TEST(JsonSchemaOracle, RandomSchemasTakeWhatFitsAndNothingElse) {
  const auto output = output_of(cases_of("schemas", 250));
  ORRERY_NEEDS_JSONSCHEMA(output);
  std::mt19937 random(3);
  Grammars grammars(test::piece_tokenizer());
  std::istringstream in(*output);
  std::string texts;
  std::string reasons;
  int held = 0;
  int good = 0;
  int refused = 0;
  for (std::string line; std::getline(in, line);) {
    const Json one = Json::parse(line);
    const auto source = grammars.json_schema(one["schema"]);
    if (!source) {  // bounds that nothing fits, and what cannot be combined
      EXPECT_EQ(source.error().kind, "E_SCHEMA") << one["schema"];
      ++refused;
      reasons += source.error().message + "\n";
      continue;
    }
    ++held;
    for (const Json& text : one["good"]) {
      EXPECT_TRUE(takes(**source, text.get<std::string>())) << one["schema"] << " " << text;
      ++good;
    }
    for (const Json& text : one["bad"]) {
      EXPECT_FALSE(takes(**source, text.get<std::string>())) << one["schema"] << " " << text;
    }
    if (held % 3 == 0) add_texts(**source, one["schema"], random, 2, texts);
  }
  EXPECT_GT(held, 3 * refused) << reasons;
  EXPECT_GT(good, held);
  EXPECT_EQ(misfits(texts), "");
}

TEST(RegexOracle, RandomPatternsMatchWhatPythonMatches) {
  const auto output = output_of(cases_of("patterns", 200));
  ORRERY_NEEDS_JSONSCHEMA(output);
  Grammars grammars(test::piece_tokenizer());
  std::istringstream in(*output);
  int good = 0;
  for (std::string line; std::getline(in, line);) {
    const Json one = Json::parse(line);
    const auto source = grammars.regex(one["pattern"].get<std::string>());
    ASSERT_TRUE(source) << one["pattern"] << " " << source.error().message;
    for (const Json& text : one["good"]) {
      EXPECT_TRUE(takes(**source, text.get<std::string>())) << one["pattern"] << " " << text;
      ++good;
    }
    for (const Json& text : one["bad"]) {
      EXPECT_FALSE(takes(**source, text.get<std::string>())) << one["pattern"] << " " << text;
    }
  }
  EXPECT_GT(good, 200);
}

}  // namespace
}  // namespace orrery::text
