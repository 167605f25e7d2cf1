#include "storage/config_json.hpp"

#include <gtest/gtest.h>

#include <string>

namespace orrery::storage {
namespace {

std::string nested(std::size_t levels) {
  return R"({"a":)" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
}

// The object, its list and the list's zeros.
std::string values(std::uint64_t n) {
  std::string text = R"({"a":[0)";
  for (std::uint64_t i = 3; i < n; ++i) text += ",0";
  return text + "]}";
}

TEST(ConfigJson, GivesTheTreeOfAnObject) {
  const auto tree = parse_config_json(R"({"a": {"b": [1, "x"]}})");
  ASSERT_TRUE(tree);
  EXPECT_EQ((*tree)["a"]["b"][1], "x");
  for (const char* text : {"", "[]", "1", "{", R"({"a": NaN})", "{} {}", "{\"a\": \"\xff\"}"}) {
    EXPECT_FALSE(parse_config_json(text)) << text;
  }
}

TEST(ConfigJson, IsBounded) {
  EXPECT_TRUE(parse_config_json(nested(64)));
  EXPECT_FALSE(parse_config_json(nested(65)));
  EXPECT_FALSE(parse_config_json(nested(1'000'000)));
  EXPECT_TRUE(parse_config_json(values(kMaxJsonValues)));
  EXPECT_FALSE(parse_config_json(values(kMaxJsonValues + 1)));
}

}  // namespace
}  // namespace orrery::storage
