#include "net/http_server.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/http_client.hpp"

namespace orrery::net {
namespace {

using Client = test::HttpClient;
using std::chrono::milliseconds;

// A latch with a limit of ten seconds.
class Event {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    is_set_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return is_set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

HttpServerOptions options() {
  HttpServerOptions o;
  o.port = 0;
  o.admit = [](HttpRequest& head, HttpReply& reply) {
    if (head.path == "/secret") reply = {403, "text/plain", {}, "no"};
    return head.path != "/secret";
  };
  o.fault = [](int status, std::string_view message, const HttpRequest* head) {
    const std::string where = head == nullptr ? "" : head->path + ": ";
    return HttpReply{status, "text/plain", {}, where + std::string(message)};
  };
  o.handle = [](HttpRequest request, std::shared_ptr<HttpResponse> response) {
    if (request.path == "/drop") return;
    response->send({200, "text/plain", {}, request.method + " " + request.path + request.body});
  };
  return o;
}

std::unique_ptr<HttpServer> start(HttpServerOptions o) {
  auto server = HttpServer::start(std::move(o));
  EXPECT_TRUE(server.has_value()) << server.error().message;
  return server ? std::move(*server) : nullptr;
}

const std::string kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(HttpServer, AnswersRequestsOfOneConnectionInOrder) {
  const auto server = start(options());
  Client client(server->port());
  std::string many;
  for (int i = 0; i < 1000; ++i) {
    many += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  }
  std::thread sender([&] { client.send(many + "HEAD /last HTTP/1.1\r\nHost: x\r\n\r\n"); });
  std::string answers = client.read_until("GET /999HTTP/1.1 200 OK");
  sender.join();
  std::size_t at = 0;
  for (int i = 0; i < 1000; ++i) {
    at = answers.find("\r\n\r\nGET /" + std::to_string(i), at);
    ASSERT_NE(at, std::string::npos) << i;
  }
}

TEST(HttpServer, HeadHasNoBody) {
  const auto server = start(options());
  Client client(server->port());
  client.send("HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answer = client.read_all();
  EXPECT_NE(answer.find("Content-Length: 7\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

TEST(HttpServer, RefusesBeforeTheBodyIsSent) {
  const auto server = start(options());
  Client secret(server->port());
  secret.send("POST /secret HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n");
  EXPECT_EQ(secret.read_until("no").rfind("HTTP/1.1 403 Forbidden\r\n", 0), 0U);
  Client large(server->port());
  large.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 16777217\r\n\r\n");
  EXPECT_EQ(large.read_until("too large").rfind("HTTP/1.1 413 ", 0), 0U);
}

TEST(HttpServer, SaysContinueOnlyToThoseItLetsIn) {
  const auto server = start(options());
  const std::string headers = "Host: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
  Client client(server->port());
  client.send("POST /a HTTP/1.1\r\n" + headers);
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hi");
  EXPECT_NE(client.read_until("POST /ahi").find("200 OK"), std::string::npos);
  Client refused(server->port());
  refused.send("POST /secret HTTP/1.1\r\n" + headers);
  EXPECT_EQ(refused.read_until("no").rfind("HTTP/1.1 403", 0), 0U);
}

// Again and again: the answer may come just when the client is asked whether it still listens.
TEST(HttpServer, AnswersAfterAHalfClose) {
  for (int round = 0; round < 20; ++round) {
    Event release;
    auto o = options();
    std::thread answering;
    o.handle = [&](HttpRequest, std::shared_ptr<HttpResponse> response) {
      answering = std::thread([&release, response] {
        release.wait();
        response->send({200, "text/plain", {}, "late"});
      });
    };
    const auto server = start(std::move(o));
    Client client(server->port());
    client.send(kGet);
    client.end_sending();
    EXPECT_EQ(client.read_until("100 Continue\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    release.set();
    const bool answered = client.read_all().ends_with("late");
    answering.join();
    ASSERT_TRUE(answered) << round;
  }
}

// Each way of going away while an answer is made or streamed.
TEST(HttpServer, TellsWhenTheClientIsGone) {
  for (const bool streams : {false, true}) {
    for (const bool resets : {false, true}) {
      Event gone, asked;
      std::shared_ptr<HttpResponse> kept;
      auto o = options();
      o.handle = [&](HttpRequest, std::shared_ptr<HttpResponse> response) {
        kept = response;
        if (streams) response->begin({200, "text/event-stream", {}, ""}, ":\n\n");
        response->on_gone([&] { gone.set(); });
        asked.set();
      };
      auto server = start(std::move(o));
      Client client(server->port());
      client.send(kGet);
      ASSERT_TRUE(asked.wait());
      if (streams) client.read_until("\r\n\r\n");
      resets ? client.reset() : client.close();
      EXPECT_TRUE(gone.wait()) << streams << resets;
      EXPECT_FALSE(kept->write("more"));
      server.reset();  // before what its handler refers to
    }
  }
}

TEST(HttpServer, StreamsInChunks) {
  auto o = options();
  o.handle = [](HttpRequest, std::shared_ptr<HttpResponse> response) {
    response->begin({200, "text/plain", {{"X-A", "b\r\nEvil: 1"}}, ""}, "");
    response->write("one");
    response->finish();
  };
  const auto server = start(std::move(o));
  Client client(server->port());
  client.send(kGet);
  const std::string answer = client.read_until("0\r\n\r\n");
  EXPECT_NE(answer.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_NE(answer.find("X-A: b  Evil: 1\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n3\r\none\r\n0\r\n\r\n")) << answer;
  Client old(server->port());
  old.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(old.read_all().ends_with("\r\n\r\none"));
}

TEST(HttpServer, LetsGoOfAReaderThatIsTooSlow) {
  Event gone;
  auto o = options();
  std::shared_ptr<HttpResponse> kept;
  Event asked;
  o.handle = [&](HttpRequest, std::shared_ptr<HttpResponse> response) {
    response->begin({200, "text/plain", {}, ""}, "");
    response->on_gone([&] { gone.set(); });
    kept = response;
    asked.set();
  };
  auto server = start(std::move(o));
  Client client(server->port());
  client.send(kGet);
  ASSERT_TRUE(asked.wait());
  const std::string block(64U << 10, 'x');
  int blocks = 0;
  while (kept->write(block) && blocks < 10'000) ++blocks;  // the system takes some megabytes
  EXPECT_LT(blocks, 10'000);
  EXPECT_TRUE(gone.wait());
  server.reset();
}

TEST(HttpServer, EndsConnectionsThatNobodyAnswers) {
  const auto server = start(options());
  Client client(server->port());
  client.send("GET /drop HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_all(), "");
}

TEST(HttpServer, EndsSlowRequests) {
  auto o = options();
  o.timeouts.head = milliseconds(50);
  o.timeouts.body = milliseconds(50);
  o.timeouts.idle = milliseconds(50);
  const auto server = start(std::move(o));
  Client head(server->port());
  head.send("GET / HT");
  EXPECT_EQ(head.read_all().rfind("HTTP/1.1 408 ", 0), 0U);
  Client body(server->port());
  body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
  const std::string slow = body.read_all();
  EXPECT_EQ(slow.rfind("HTTP/1.1 408 ", 0), 0U);
  EXPECT_NE(slow.find("\r\n\r\n/: the body"), std::string::npos);
  Client idle(server->port());
  EXPECT_EQ(idle.read_all(), "");
  Client none(server->port());
  none.close();
}

TEST(HttpServer, DrainsWhatIsInProgress) {
  Event asked;
  std::shared_ptr<HttpResponse> kept;
  auto o = options();
  o.handle = [&](HttpRequest, std::shared_ptr<HttpResponse> response) {
    if (kept != nullptr) return response->send({503, "text/plain", {}, "ending"});
    kept = std::move(response);
    asked.set();
  };
  auto server = start(std::move(o));
  Client idle(server->port()), busy(server->port());
  busy.send(kGet);
  ASSERT_TRUE(asked.wait());
  std::thread drain([&] { server->drain(std::chrono::seconds(10)); });
  EXPECT_EQ(idle.read_all(), "");  // closed at once
  Client late(server->port());
  late.send(kGet + kGet);
  const std::string why = late.read_all();  // one answer, then the end
  EXPECT_EQ(why.rfind("HTTP/1.1 503 ", 0), 0U);
  EXPECT_NE(why.find("Connection: close"), std::string::npos);
  EXPECT_EQ(why.rfind("HTTP/1.1 "), 0U);
  Client silent(server->port());  // costs no time
  kept->send({200, "text/plain", {}, "whole"});
  const std::string answer = busy.read_all();
  drain.join();
  EXPECT_FALSE(Client(server->port()).connected());
  EXPECT_TRUE(answer.ends_with("whole"));
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  EXPECT_EQ(server->connections(), 0U);
}

TEST(HttpServer, ClosesWhatDoesNotEndInTime) {
  Event asked, gone;
  std::shared_ptr<HttpResponse> kept;
  auto o = options();
  o.handle = [&](HttpRequest, std::shared_ptr<HttpResponse> response) {
    response->on_gone([&] { gone.set(); });
    kept = std::move(response);
    asked.set();
  };
  auto server = start(std::move(o));
  Client busy(server->port());
  busy.send(kGet);
  ASSERT_TRUE(asked.wait());
  server->drain(milliseconds(20));
  EXPECT_TRUE(gone.wait());
  server.reset();
}

TEST(HttpServer, LetsLateAnswersEndThemselves) {
  Event asked;
  std::shared_ptr<HttpResponse> kept;
  auto o = options();
  o.handle = [&](HttpRequest, std::shared_ptr<HttpResponse> response) {
    kept = std::move(response);
    asked.set();
  };
  auto server = start(std::move(o));
  Client busy(server->port());
  busy.send(kGet);
  ASSERT_TRUE(asked.wait());
  server->drain(milliseconds(20), [&] { kept->send({503, "text/plain", {}, "no time left"}); });
  EXPECT_TRUE(busy.read_all().ends_with("no time left"));
  int calls = 0;
  server->drain(milliseconds(0), [&] { ++calls; });
  EXPECT_EQ(calls, 0);  // nothing is late
}

// Without a free descriptor clients wait in the system's queue, and are served afterwards.
TEST(HttpServer, SurvivesTheLimitOfDescriptors) {
  const auto server = start(options());
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  Client client(server->port());
  const rlimit few{
      static_cast<rlim_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {})) -
          1,
      before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  client.send(kGet);
  std::this_thread::sleep_for(milliseconds(20));  // the server finds no descriptor
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(client.read_until("GET /a").find("200 OK"), std::string::npos);
}

TEST(HttpServer, SaysWhatIsWrongWithItsAddress) {
  const auto first = start(options());
  auto o = options();
  o.port = first->port();
  const auto taken = HttpServer::start(std::move(o));
  ASSERT_FALSE(taken.has_value());
  EXPECT_EQ(taken.error().kind, "E_ADDRESS");
  auto strange = options();
  strange.certificate = strange.key = "/nowhere.pem";
  const auto no_file = HttpServer::start(std::move(strange));
  ASSERT_FALSE(no_file.has_value());
  EXPECT_EQ(no_file.error().kind, "E_TLS");
}

}  // namespace
}  // namespace orrery::net
