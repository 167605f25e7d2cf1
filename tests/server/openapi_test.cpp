// The description of the API has every route, and no other.
#include "server/openapi.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "server/json.hpp"
#include "server/router.hpp"

namespace orrery::server {
namespace {

Json document() {
  const auto parsed = parse_json(openapi_document());
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? *parsed : Json::object();
}

// "/v1/models/*" of "/v1/models/{model}".
std::string pattern_of(std::string path) {
  const std::size_t parameter = path.find('{');
  return parameter == std::string::npos ? path : path.substr(0, parameter) + "*";
}

TEST(Openapi, HasEveryRouteAndNoOther) {
  std::set<std::string> described, served;
  const Json json = document();
  for (const auto& [path, operations] : json["paths"].items()) {
    for (const auto& [method, operation] : operations.items()) {
      std::string name = method;
      std::ranges::transform(name, name.begin(), [](char c) { return c - 'a' + 'A'; });
      described.insert(name + " " + pattern_of(path));
    }
  }
  for (const Route& route : routes()) {
    served.insert(std::string(route.method) + " " + std::string(route.path));
  }
  EXPECT_EQ(described, served);
}

TEST(Openapi, SaysWhichRoutesNeedNoKey) {
  const Json json = document();
  for (const auto& [path, operations] : json["paths"].items()) {
    for (const auto& [method, operation] : operations.items()) {
      const auto route = std::ranges::find_if(
          routes(), [&](const Route& candidate) { return candidate.path == pattern_of(path); });
      ASSERT_NE(route, routes().end()) << path;
      EXPECT_EQ(operation.contains("security"), !route->needs_key) << path;
      EXPECT_EQ(operation["responses"].contains("401"), route->needs_key) << path;
    }
  }
}

void check_references(const Json& part, const Json& whole) {
  if (!part.is_structured()) return;
  if (part.is_object() && part.contains("$ref")) {
    const auto& text = part["$ref"].get_ref<const std::string&>();
    ASSERT_TRUE(text.starts_with("#/")) << text;
    const Json* at = &whole;
    for (std::size_t begin = 2; begin <= text.size();) {
      const std::size_t end = std::min(text.find('/', begin), text.size());
      const std::string name = text.substr(begin, end - begin);
      ASSERT_TRUE(at->contains(name)) << text;
      at = &(*at)[name];
      begin = end + 1;
    }
  }
  for (const Json& inner : part) check_references(inner, whole);
}

TEST(Openapi, RefersToWhatIsThere) {
  const Json json = document();
  check_references(json, json);
}

}  // namespace
}  // namespace orrery::server
