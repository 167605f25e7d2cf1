// Random texts that a schema's mask lets through, judged by Python's jsonschema: all of them fit.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
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

TEST(JsonSchemaOracle, RandomTextsFitTheirSchemas) {
  std::mt19937 random(7);
  Grammars grammars(test::piece_tokenizer());
  std::string lines;
  int texts = 0;
  for (const char* schema : kSchemas) {
    const Json json = Json::parse(schema);
    const auto source = grammars.json_schema(json);
    ASSERT_TRUE(source) << schema << ": " << source.error().message;
    int of_this = 0;
    for (int i = 0; i < 10; ++i) {
      const std::string text = test::random_text(**source, random, 2 * i);
      if (text.empty()) continue;
      ASSERT_TRUE(Json::accept(text)) << schema << ": " << text;
      lines += Json{{"schema", json}, {"text", text}}.dump() + "\n";
      ++of_this;
    }
    EXPECT_GT(of_this, 0) << schema;
    texts += of_this;
  }
  const orrery::test::TempDir folder;
  const std::string command = "python3 '" + orrery::test::source_dir() +
                              "/tests/text/schema_oracle.py' '" + folder.write("texts", lines) +
                              "'";
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string findings;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) findings += static_cast<char>(c);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoJsonschema) {
    GTEST_SKIP() << "needs the Python package jsonschema (tests/requirements.txt)";
  }
  EXPECT_EQ(status, 0);
  EXPECT_EQ(findings, "") << texts << " texts";
}

}  // namespace
}  // namespace orrery::text
