// Templates in the manner of the known families, with what jinja2 makes of them
// (tests/text/template_oracle.py --golden): proof where there is no Python.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "support/paths.hpp"
#include "text/chat_template.hpp"

namespace orrery::text {
namespace {

const std::filesystem::path kFolder = test::source_dir() + "/tests/text/jinja_golden";

std::string read_file(const std::filesystem::path& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(JinjaGolden, FamiliesOfTemplates) {
  const Json cases = Json::parse(read_file(kFolder / "cases.json"));
  ASSERT_GE(cases.size(), 10U);
  RenderLimits limits;
  limits.now_unix_seconds = 1'700'000'000;
  int templates = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".jinja") continue;
    ++templates;
    const auto compiled = ChatTemplate::compile(read_file(entry.path()));
    ASSERT_TRUE(compiled.has_value()) << entry.path() << ": " << compiled.error().message;
    const auto json_path = std::filesystem::path(entry.path()).replace_extension(".json");
    const Json expected = Json::parse(read_file(json_path));
    ASSERT_EQ(expected.size(), cases.size()) << json_path;
    for (const auto& [name, text] : expected.items()) {
      const auto rendered = (*compiled)->render(cases.at(name), limits);
      if (text.is_null()) {
        EXPECT_FALSE(rendered.has_value()) << entry.path() << " on " << name;
      } else {
        ASSERT_TRUE(rendered.has_value()) << entry.path() << ": " << rendered.error().message;
        EXPECT_EQ(*rendered, text.get<std::string>()) << entry.path() << " on " << name;
      }
    }
  }
  EXPECT_EQ(templates, 10);
}

}  // namespace
}  // namespace orrery::text
