#include "server/json.hpp"

#include <gtest/gtest.h>

#include <string>

#include "server/fields.hpp"

namespace orrery::server {
namespace {

TEST(Json, RefusesWhatTwoReadersCouldReadDifferently) {
  const std::string texts[] = {
      "",
      "{\"a\":1,\"a\":2}",
      "{\"a\":{\"b\":1,\"b\":1}}",
      "\xEF\xBB\xBF{}",
      "{\"a\":NaN}",
      "{\"a\":Infinity}",
      "{\"a\":1e999}",
      "{\"a\":1,}",
      "{\"a\":\"\\ud800\"}",
      "{\"a\":\"\xC0\xAF\"}",
      "{} {}",
      "{\"a\":01}",
      std::string(kMaxJsonDepth + 1, '[') + std::string(kMaxJsonDepth + 1, ']'),
      std::string(100'000, '['),
  };
  for (const std::string& text : texts) {
    const auto parsed = parse_json(text);
    ASSERT_FALSE(parsed.has_value()) << text.substr(0, 40);
    EXPECT_EQ(parsed.error().kind, "E_JSON");
  }
}

TEST(Json, BoundsTheNumberOfKeys) {
  const auto object = [](std::size_t keys) {
    std::string text = "{";
    for (std::size_t i = 0; i < keys; ++i) {
      text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":0";
    }
    return text + "}";
  };
  const auto fits = parse_json(object(kMaxJsonKeys));
  ASSERT_TRUE(fits.has_value());
  EXPECT_EQ(fits->size(), kMaxJsonKeys);
  EXPECT_FALSE(parse_json(object(kMaxJsonKeys + 1)).has_value());
}

TEST(Json, KeepsOrderAndValues) {
  const std::string text = R"({"z":[1,-2,3.5,true,null],"a":{"b":"\u00e9"},"n":9007199254740993})";
  const auto parsed = parse_json(text);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(to_text(*parsed),
            "{\"z\":[1,-2,3.5,true,null],\"a\":{\"b\":\"\xC3\xA9\"},"
            "\"n\":9007199254740993}");
  EXPECT_TRUE(parse_json(std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']')));
}

TEST(Json, WritesAnyBytes) {
  EXPECT_EQ(to_text(Json("a\xFF")), "\"a\xEF\xBF\xBD\"");
}

TEST(Fields, ReadTypesAndRanges) {
  const Json body = *parse_json(
      R"({"i":3,"f":3.0,"h":3.5,"s":"x","b":true,"n":null,"big":18446744073709551615})");
  EXPECT_EQ(**get_integer(body, "i", 0, 3), 3);
  EXPECT_EQ(**get_integer(body, "f", 0, 3), 3);
  EXPECT_EQ(get_integer(body, "n", 0, 3)->has_value(), false);
  EXPECT_EQ(get_integer(body, "absent", 0, 3)->has_value(), false);
  EXPECT_EQ(**get_number(body, "h", 0, 3.5), 3.5);
  EXPECT_EQ(**get_string(body, "s", 1), "x");
  EXPECT_TRUE(*get_bool(body, "b", false));
  EXPECT_TRUE(*get_bool(body, "n", true));
  EXPECT_FALSE(get_integer(body, "i", 4, 9).has_value());
  EXPECT_FALSE(get_integer(body, "h", 0, 9).has_value());
  EXPECT_FALSE(get_integer(body, "s", 0, 9).has_value());
  EXPECT_FALSE(get_integer(body, "big", 0, INT64_MAX).has_value());
  EXPECT_FALSE(get_number(body, "h", 0, 3).has_value());
  EXPECT_FALSE(get_number(body, "b", 0, 3).has_value());
  EXPECT_FALSE(get_string(body, "s", 0).has_value());
  const auto wrong = get_bool(body, "i", false);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().status, 400);
  EXPECT_EQ(wrong.error().param, "i");
}

TEST(ApiError, HasTheFormOfItsDialect) {
  const ApiError error{404, "no", "model", "model_not_found"};
  EXPECT_EQ(to_text(error_object(Dialect::openai, error)),
            R"({"error":{"message":"no","type":"not_found_error","param":"model",)"
            R"("code":"model_not_found"}})");
  EXPECT_EQ(to_text(error_object(Dialect::ollama, error)), R"({"error":"no"})");
  EXPECT_EQ(to_text(error_object(Dialect::anthropic, error)),
            R"({"type":"error","error":{"type":"not_found_error","message":"no"}})");
}

TEST(ApiError, EndsAStreamThatHasBegun) {
  const ApiError error{503, "no", "model", "out_of_memory"};
  const std::string openai = error_event(Dialect::openai, "/v1/chat/completions", error);
  EXPECT_TRUE(openai.starts_with("data: {\"error\":{\"message\":\"no\"")) << openai;
  EXPECT_TRUE(openai.ends_with("}\n\ndata: [DONE]\n\n")) << openai;
  const std::string responses = error_event(Dialect::openai, "/v1/responses", error);
  EXPECT_TRUE(responses.starts_with("event: error\ndata: {\"message\":\"no\"")) << responses;
  EXPECT_NE(responses.find("\"type\":\"error\""), std::string::npos) << responses;
  EXPECT_EQ(error_event(Dialect::anthropic, "/v1/messages", error),
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
            "\"message\":\"no\"}}\n\n");
  EXPECT_EQ(error_event(Dialect::ollama, "/api/pull", error), "{\"error\":\"no\"}\n");
}

TEST(ApiError, TellsWhoseFaultItIs) {
  EXPECT_EQ(api_error({"E_CONTEXT", "long"}).status, 400);
  EXPECT_EQ(api_error({"E_BUSY", "full"}).retry_after, 1);
  const ApiError own = api_error({"E_NAN", "/a/path: secret"});
  EXPECT_EQ(own.status, 500);
  EXPECT_EQ(own.message.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace orrery::server
