// The whole server under clients of every kind at once: what it says to one does not depend on the
// others, whatever thread of it meets which.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "server/json.hpp"
#include "server/server.hpp"
#include "support/http_client.hpp"
#include "support/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

namespace orrery::server {
namespace {

constexpr int kRounds = 4;

// Opens the files of its sources.
class FileStore final : public ModelStore {
 public:
  Result<LoadedModel> load(const ModelSource& source) override {
    engine::ModelOptions options;
    options.threads = 2;
    options.deterministic = true;
    options.max_sequences = 6;
    auto served = std::make_shared<ServedModel>();
    served->id = source.id;
    ORRERY_TRY(served->model, engine::Model::open(source.path, options, storage::system_io()));
    ORRERY_TRY(served->scheduler, engine::Scheduler::start(served->model, {.running = 3}));
    prepare_texts(*served);
    return LoadedModel{served, facts_of(*served->model)};
  }
  Result<ModelFacts> inspect(const ModelSource&) override {
    return fail("E_TEST", "not asked for");
  }
  Result<ModelSource> pull(const std::string&,
                           const std::function<bool(const PullEvent&)>&) override {
    return fail("E_NOMODEL", "nothing to pull");
  }
  Status check_remove(const ModelSource&) override { return fail("E_PLACE", "stays"); }
  Status remove(const ModelSource&) override { return fail("E_PLACE", "stays"); }
};

// One request on a connection of its own.
class Client : public test::HttpClient {
 public:
  Client(std::uint16_t port, const std::string& method, const std::string& path,
         const Json& body = {})
      : HttpClient(port, 60) {
    EXPECT_TRUE(connected());
    const std::string text = body.is_null() ? "" : body.dump();
    send(method + " " + path +
         " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
         "Content-Type: application/json\r\nContent-Length: " +
         std::to_string(text.size()) + "\r\n\r\n" + text);
  }

  // The body of the whole answer, which has to be a good one.
  std::string body() {
    const std::string all = read_all();
    EXPECT_TRUE(all.starts_with("HTTP/1.1 200 ")) << all;
    const std::size_t head = all.find("\r\n\r\n");
    return head == std::string::npos ? "" : all.substr(head + 4);
  }
};

Json prompt(int i, bool stream = false) {
  return {{"model", "a"},
          {"prompt", "abab" + std::to_string(i)},
          {"max_tokens", 12},
          {"temperature", 0},
          {"stream", stream}};
}

class ManyClients : public testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.port = 0;
    options.session_dir = folder.file("sessions");
    options.log = [this](std::string_view) { ++lines; };
    std::vector<ModelSource> sources;
    for (const char* id : {"a", "b"}) {
      const std::string path = folder.write(std::string(id) + ".gguf", test::TinyGguf(2).build());
      sources.push_back({id, path, path, 1, 1, 0, *id == 'a'});
    }
    auto started = Server::start(std::make_unique<FileStore>(), sources, options);
    ASSERT_TRUE(started) << started.error().message;
    server = std::move(*started);
    ASSERT_TRUE(server->load_models());
  }
  std::string answer(int i) {
    return Json::parse(Client(server->port(), "POST", "/v1/completions", prompt(i)).body())
        .at("choices")
        .at(0)
        .at("text");
  }

  test::TempDir folder;
  std::atomic<int> lines = 0;
  std::unique_ptr<Server> server;
};

TEST_F(ManyClients, AreAnsweredAsOneAlone) {
  std::vector<std::string> alone;
  for (int i = 0; i < kRounds; ++i) alone.push_back(answer(i));
  const std::uint16_t port = server->port();
  const auto rounds = [](const auto& work) {
    return std::thread([work] {
      for (int i = 0; i < kRounds; ++i) work(i);
    });
  };
  std::vector<std::thread> clients;
  for (int twice = 0; twice < 2; ++twice) {
    clients.push_back(rounds([&](int i) { EXPECT_EQ(answer(i), alone[i]); }));
  }
  clients.push_back(rounds([&](int i) {
    const std::string events = Client(port, "POST", "/v1/completions", prompt(i, true)).body();
    EXPECT_NE(events.find("data: [DONE]"), std::string::npos) << events;
  }));
  clients.push_back(rounds([&](int i) {  // one grammar for both choices
    Json body = prompt(i);
    body["n"] = 2;
    body["max_tokens"] = 40;
    body["response_format"] = {{"type", "json_schema"},
                               {"json_schema", {{"name", "x"}, {"schema", {{"enum", {1, 2}}}}}}};
    const std::string both = Client(port, "POST", "/v1/completions", body).body();
    for (const Json& choice : Json::parse(both).at("choices")) {
      EXPECT_TRUE(choice.at("text") == "1" || choice.at("text") == "2") << both;
    }
  }));
  clients.push_back(rounds([&](int i) {
    const std::string slot = "/slots/" + std::to_string(i + 2) + "?action=save";
    Client client(port, "POST", slot, {{"filename", "kept" + std::to_string(i)}});
    const std::string text = client.read_all();
    EXPECT_TRUE(text.starts_with("HTTP/1.1 200 ") || text.starts_with("HTTP/1.1 409 ")) << text;
  }));
  clients.push_back(rounds([&](int i) {  // goes away
    Json endless = prompt(i, true);
    endless["max_tokens"] = 100;
    endless["ignore_eos"] = true;
    Client(port, "POST", "/v1/completions", endless).read_until("data: ");
  }));
  clients.push_back(rounds([&](int) {  // loads it, and has it unloaded
    const Json body = {{"model", "b"},    {"prompt", "ab"},  {"raw", true},
                       {"stream", false}, {"keep_alive", 0}, {"options", {{"num_predict", 4}}}};
    EXPECT_TRUE(Json::parse(Client(port, "POST", "/api/generate", body).body()).at("done"));
  }));
  clients.push_back(rounds([&](int) {
    const Json body = {{"model", "a"}, {"input", {"ab", "ba"}}};
    EXPECT_EQ(Json::parse(Client(port, "POST", "/v1/embeddings", body).body()).at("data").size(),
              2U);
  }));
  clients.push_back(rounds([&](int) {
    for (const char* path : {"/health", "/metrics", "/slots", "/api/ps", "/v1/models", "/props"}) {
      EXPECT_NE(Client(port, "GET", path).body(), "") << path;
    }
  }));
  for (std::thread& client : clients) client.join();
  EXPECT_GT(lines, 10 * kRounds);
}

TEST_F(ManyClients, AllHaveAnEndWhenTheServerDoes) {
  Json endless = prompt(0, true);
  endless["max_tokens"] = 110;
  endless["ignore_eos"] = true;
  std::latch streaming(4);
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      Client client(server->port(), "POST", "/v1/completions", endless);
      client.read_until("HTTP/1.1 200 ");
      streaming.count_down();
      EXPECT_TRUE(client.read_all().ends_with("0\r\n\r\n"));
    });
  }
  streaming.wait();
  server->drain(std::chrono::seconds(60));
  for (std::thread& client : clients) client.join();
}

}  // namespace
}  // namespace orrery::server
