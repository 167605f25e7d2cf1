#include "server/model_request.hpp"

#include <gtest/gtest.h>

#include "server/fields.hpp"

namespace orrery::server {
namespace {

ApiResult<std::optional<WantedModel>> wanted(const char* path, Dialect dialect,
                                             const std::string& body) {
  Call call;
  call.request.path = path;
  call.request.body = body;
  call.dialect = dialect;
  const auto json = parse_object(body);
  return wanted_model(call, json ? &*json : nullptr);
}

TEST(WantedModel, IsReadBeforeTheHandler) {
  const auto chat = wanted("/v1/chat/completions", Dialect::openai,
                           R"({"model":"m","stream":true,"keep_alive":"rubbish"})");
  ASSERT_TRUE(chat && *chat);
  EXPECT_EQ((*chat)->name, "m");
  EXPECT_TRUE((*chat)->streams);
  EXPECT_FALSE((*chat)->keep.has_value());
  const auto none = wanted("/v1/messages", Dialect::anthropic, "{}");
  ASSERT_TRUE(none && *none);
  EXPECT_EQ((*none)->name, "");
  const auto llama = wanted("/api/chat", Dialect::ollama,
                            R"({"model":"m","messages":[{}],"keep_alive":"5m","stream":true})");
  ASSERT_TRUE(llama && *llama);
  EXPECT_EQ((*llama)->keep, Keep(300'000));
  EXPECT_FALSE((*llama)->streams);  // its form has no comments
}

TEST(WantedModel, IsNoneWhereTheHandlerWillRefuse) {
  for (const char* body : {"", "[]", "{", R"({"model":1})", R"({"model":"a","model":"b"})"}) {
    const auto none = wanted("/v1/completions", Dialect::openai, body);
    ASSERT_TRUE(none.has_value()) << body;
    EXPECT_FALSE(none->has_value()) << body;
  }
}

TEST(WantedModel, KnowsHowOllamasClientsLetAModelGo) {
  for (const char* body : {R"({"model":"m","keep_alive":0})", R"({"model":"m","keep_alive":"0s"})",
                           R"({"model":"m","keep_alive":0,"prompt":"","messages":[]})"}) {
    for (const char* path : {"/api/generate", "/api/chat"}) {
      const auto none = wanted(path, Dialect::ollama, body);
      ASSERT_TRUE(none.has_value());
      EXPECT_FALSE(none->has_value()) << path << body;
    }
    EXPECT_TRUE(wanted("/api/embed", Dialect::ollama, body)->has_value());
  }
  const auto used =
      wanted("/api/generate", Dialect::ollama, R"({"model":"m","keep_alive":0,"prompt":"a"})");
  ASSERT_TRUE(used && *used);
  EXPECT_EQ((*used)->keep, Keep(0));
}

TEST(WantedModel, RefusesAKeepAliveThatIsNone) {
  for (const char* value : {"\"1000y\"", "true", "[]", "1e300", "\"\""}) {
    const auto wrong = wanted("/api/generate", Dialect::ollama,
                              std::string(R"({"model":"m","keep_alive":)") + value + "}");
    ASSERT_FALSE(wrong.has_value()) << value;
    EXPECT_EQ(wrong.error().status, 400);
    EXPECT_EQ(wrong.error().param, "keep_alive");
  }
}

TEST(WantedModel, OfASlotStandsInTheAddressOrTheBody) {
  for (const char* body : {"", R"({"filename":"a"})", R"({"model":"other"})"}) {
    Call call;
    call.request.path = "/slots/3";
    call.request.query = "action=erase&model=m";
    const auto json = parse_object(body);
    const auto wanted = wanted_model(call, json ? &*json : nullptr);
    ASSERT_TRUE(wanted && *wanted) << body;
    EXPECT_EQ((*wanted)->name, "m");
  }
  EXPECT_EQ((*wanted("/slots/3", Dialect::openai, R"({"model":"m"})"))->name, "m");
  EXPECT_EQ((*wanted("/slots/3", Dialect::openai, ""))->name, "");
  EXPECT_EQ(wanted("/slots/3", Dialect::openai, R"({"model":1})").error().status, 400);
}

TEST(QueryValue, IsThatOfTheWholeName) {
  EXPECT_EQ(query_value("a=1&model=m&b", "model"), "m");
  EXPECT_EQ(query_value("amodel=1&model=", "model"), "");
  EXPECT_EQ(query_value("model", "model"), "");
  EXPECT_EQ(query_value("", "model"), "");
}

}  // namespace
}  // namespace orrery::server
