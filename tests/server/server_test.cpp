// The server over HTTP with models that only pretend: its states, and streams that fail early.
#include "server/server.hpp"

#include <gtest/gtest.h>

#include <future>

#include "server/fake_store.hpp"
#include "server/json.hpp"
#include "support/http_client.hpp"
#include "support/temp_dir.hpp"

namespace orrery::server {
namespace {

struct Answer {
  int status = 0;
  std::string head, body;
  Json json() const { return Json::parse(body); }
};

Answer parsed(const std::string& text) {
  const std::size_t end = text.find("\r\n\r\n");
  if (text.size() < 12 || end == std::string::npos) return {};
  return {std::stoi(text.substr(9, 3)), text.substr(0, end), text.substr(end + 4)};
}

std::string request_text(const std::string& method, const std::string& path,
                         const std::string& body = "", const std::string& headers = "") {
  return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
         "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

class ServerTest : public testing::Test {
 protected:
  void start(std::vector<std::string> named, std::vector<std::string> others,
             ServerOptions options = {}) {
    auto store = std::make_unique<FakeStore>();
    store_ = store.get();
    std::vector<ModelSource> sources;
    for (const std::string& id : named) sources.push_back({id, id, id, 1, 1, 0, true});
    for (const std::string& id : others) sources.push_back({id, id, id, 1, 1, 0, false});
    options.port = 0;
    options.models.residency.notice = Keep(10);
    auto started = Server::start(std::move(store), sources, options);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    server_ = std::move(*started);
  }
  void load() { ASSERT_TRUE(server_->load_models().has_value()); }
  Answer ask(const std::string& text) {
    test::HttpClient client(server_->port());
    client.send(text);
    return parsed(client.read_all());
  }
  Answer health(const std::string& headers = "") {
    return ask(request_text("GET", "/health", "", headers));
  }
  std::string status() { return health().json()["status"]; }

  FakeStore* store_ = nullptr;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, IsNotReadyBeforeItsModelsAre) {
  start({"a"}, {});
  EXPECT_EQ(health().status, 503);
  store_->set_open(false);
  auto loaded = std::async([this] { load(); });
  store_->wait_for_loads(1);
  const Answer meanwhile = health();
  EXPECT_EQ(meanwhile.status, 503);
  EXPECT_EQ(meanwhile.json(), Json::parse(R"({"status":"loading","loading":["a"]})"));
  store_->set_open(true);
  loaded.get();
  EXPECT_EQ(health().status, 200);
  EXPECT_EQ(health().json(), Json::parse(R"({"status":"ok","loading":[]})"));
}

TEST_F(ServerTest, IsDegradedWhileAModelCannotBeLoaded) {
  start({"a"}, {"b"});
  load();
  store_->broken = {"b"};
  EXPECT_EQ(ask(request_text("POST", "/tokenize", R"({"model":"b"})")).status, 500);
  const Answer degraded = health();
  EXPECT_EQ(degraded.status, 200);
  EXPECT_EQ(degraded.json()["status"], "degraded");
  EXPECT_EQ(degraded.json()["reasons"],
            Json::parse(R"([{"code":"model_load_failed","model":"b"}])"));
}

TEST_F(ServerTest, IsDegradedWhereNoSessionCanBeSaved) {
  const test::TempDir folder;
  const std::string file = folder.path() + "/file";
  ASSERT_NE(std::fclose(std::fopen(file.c_str(), "w")), EOF);
  for (const auto& [path, expected] :
       {std::pair{folder.path() + "/new", "ok"}, std::pair{file + "/under", "degraded"}}) {
    ServerOptions options;
    options.session_dir = path;
    start({}, {"a"}, options);
    load();
    EXPECT_EQ(status(), expected);
  }
  EXPECT_EQ(health().json()["reasons"], Json::parse(R"([{"code":"sessions_not_saved"}])"));
}

TEST_F(ServerTest, TellsNamesToThoseWithAKeyAlone) {
  ServerOptions options;
  options.access.keys = {"secret"};
  start({}, {"b"}, options);
  load();
  store_->broken = {"b"};
  const std::string key = "Authorization: Bearer secret\r\n";
  EXPECT_EQ(ask(request_text("POST", "/tokenize", R"({"model":"b"})", key)).status, 500);
  EXPECT_EQ(health().json(), Json::parse(R"({"status":"degraded"})"));
  EXPECT_EQ(health(key).json()["reasons"][0]["model"], "b");
}

TEST_F(ServerTest, SaysThatItEnds) {
  start({}, {"a"});
  load();
  store_->set_open(false);
  test::HttpClient waits(server_->port());  // for a model: it is there until the drain refuses it
  waits.send(request_text("POST", "/tokenize", "{}"));
  store_->wait_for_loads(1);
  // A body that is never whole keeps the server waiting.
  test::HttpClient slow(server_->port());
  slow.send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 9\r\nExpect: 100-continue\r\n\r\n");
  slow.read_until("100 Continue");
  auto drained = std::async([this] { server_->drain(std::chrono::seconds(100)); });
  const Answer refused = parsed(waits.read_all());
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.json()["error"]["code"], "draining");
  const Answer ending = health();
  EXPECT_EQ(ending.status, 503);
  EXPECT_EQ(ending.json()["status"], "draining");
  EXPECT_EQ(ask(request_text("POST", "/tokenize", "{}")).json()["error"]["code"], "draining");
  slow.close();
  drained.get();
  store_->set_open(true);
}

// A stream that has begun before its model was there, which then does not come.
TEST_F(ServerTest, StreamsThatFailEarlyEndWithAnEventOfTheirDialect) {
  const std::string done = "data: [DONE]\n\n";
  struct Case {
    std::string path, event, end;
  };
  const Case cases[] = {
      {"/v1/chat/completions", "data: {\"error\":{", done},
      {"/v1/completions", "data: {\"error\":{", done},
      {"/v1/responses", "event: error\ndata: {", "\"sequence_number\":0}\n\n"},
      {"/completion", "data: {\"error\":{", "}}\n\n"},
      {"/infill", "data: {\"error\":{", "}}\n\n"},
      {"/v1/messages", "event: error\ndata: {\"type\":\"error\",\"error\":{", "}}\n\n"},
  };
  for (const Case& one : cases) {
    start({}, {"a"});
    load();
    store_->broken = {"a"};
    store_->set_open(false);
    test::HttpClient client(server_->port());
    client.send(request_text("POST", one.path, R"({"stream":true})"));
    const std::string head = client.read_until("\r\n\r\n");  // comments come later
    EXPECT_EQ(parsed(head).status, 200) << one.path << head;
    EXPECT_NE(head.find("text/event-stream"), std::string::npos) << one.path;
    store_->set_open(true);
    std::string rest = client.read_all();
    const std::string last_chunk = "\r\n0\r\n\r\n";
    ASSERT_TRUE(rest.ends_with(one.end + last_chunk)) << one.path << rest;
    EXPECT_NE(rest.find("\r\n" + one.event), std::string::npos) << one.path << rest;
    EXPECT_NE(rest.find("the model could not be loaded"), std::string::npos) << rest;
    EXPECT_EQ(rest.find("/secret"), std::string::npos);
  }
}

// Its form has no comments: nothing is sent before the model is there.
TEST_F(ServerTest, OllamasStreamsAreRefusedWhole) {
  for (const char* path : {"/api/chat", "/api/generate"}) {
    start({}, {"a"});
    load();
    store_->broken = {"a"};
    const Answer answer =
        ask(request_text("POST", path, R"({"stream":true,"prompt":"a","messages":[{}]})"));
    EXPECT_EQ(answer.status, 500);
    EXPECT_TRUE(answer.json()["error"].is_string());
  }
}

TEST_F(ServerTest, LoadsTheModelOfASlot) {
  start({}, {"a", "b"});
  load();
  store_->broken = {"b"};
  // It is tried, and the store has been asked for the right one.
  EXPECT_EQ(ask(request_text("POST", "/slots/0?action=erase&model=b")).json()["error"]["code"],
            "model_load_failed");
  EXPECT_EQ(store_->loads, 1);
  EXPECT_EQ(ask(request_text("GET", "/slots?model=a")).json()["error"]["code"], "model_not_loaded");
}

TEST_F(ServerTest, RequestsHaveIds) {
  std::mutex mutex;
  std::vector<std::string> lines;
  ServerOptions options;
  options.log = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  };
  start({}, {}, options);
  const auto id_of = [](const Answer& answer) {
    const std::string name = "\r\nX-Request-Id: ";
    const std::size_t at = answer.head.find(name);
    EXPECT_EQ(answer.head.find(name, at + 1), std::string::npos) << answer.head;
    if (at == std::string::npos) return std::string();
    const std::size_t begin = at + name.size();
    return answer.head.substr(begin, answer.head.find("\r\n", begin) - begin);
  };
  const auto sent = [&](const std::string& id) { return health("X-Request-Id: " + id + "\r\n"); };
  const std::string longest(128, 'a');
  for (const std::string& id : {std::string("my-id_1.2:3/4+5="), longest}) {
    EXPECT_EQ(id_of(sent(id)), id);
  }
  const Answer nobody = health();
  EXPECT_EQ(id_of(nobody).size(), 28U);
  EXPECT_NE(id_of(nobody), id_of(health()));
  const Answer twice = health("X-Request-Id: a\r\nX-Request-Id: b\r\n");
  for (const Answer& other :
       {sent(longest + "a"), sent("a b"), sent("a\xC3\xA9"), sent(""), sent("<b>"), twice}) {
    EXPECT_TRUE(id_of(other).starts_with("req_")) << other.head;
  }
  // What is refused, and what is no request.
  EXPECT_EQ(id_of(ask(request_text("GET", "/nothing", "", "X-Request-Id: x1\r\n"))), "x1");
  EXPECT_FALSE(id_of(ask("rubbish\r\n\r\n")).empty());
  const Answer large =
      ask("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: x2\r\n"
          "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n");
  EXPECT_EQ(large.status, 400) << large.head;
  EXPECT_EQ(id_of(large), "x2");
  EXPECT_NE(large.head.find("\r\nrequest-id: x2"), std::string::npos) << large.head;
  EXPECT_EQ(large.json()["type"], "error");
  server_.reset();
  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(Json::parse(lines[0])["id"], "my-id_1.2:3/4+5=");
  EXPECT_EQ(Json::parse(lines[1])["id"], longest);
}

}  // namespace
}  // namespace orrery::server
