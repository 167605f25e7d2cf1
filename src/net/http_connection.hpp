// Inside the HTTP server: its state and its connections. The only header that knows Asio; included
// by http_server.cpp and http_connection.cpp alone.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "net/http_exchange.hpp"
#include "net/http_parser.hpp"
#include "net/http_server.hpp"

namespace orrery::net {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using ErrorCode = boost::system::error_code;

inline constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

class Connection;

// What all connections share; lives on the network thread.
struct HttpCore : std::enable_shared_from_this<HttpCore> {
  explicit HttpCore(HttpServerOptions given)
      : options(std::move(given)), acceptor(io), retry(io), grace_timer(io) {}

  Status listen();
  Status load_certificate();
  awaitable<void> accept_all();
  void forget(Connection* connection);
  void drain(milliseconds grace, std::function<void()> late,
             std::shared_ptr<std::promise<void>> done);
  void close_all_after(milliseconds time);
  void close_all();
  void end_drain();

  HttpServerOptions options;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::steady_timer retry, grace_timer;
  std::optional<asio::ssl::context> tls;
  std::unordered_set<Connection*> connections;
  std::unordered_set<Connection*> awaited;  // by drain(): those that were there
  std::atomic<std::size_t> count{0};
  std::atomic<std::uint16_t> port{0};
  bool draining = false;
  std::shared_ptr<std::promise<void>> drained;
};

// One client. A reader fills in_, the other coroutine parses, answers and writes; both run on the
// network thread alone.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<HttpCore> server, tcp::socket socket);
  void start();
  void notify() { wake_.cancel(); }
  void close();

 private:
  static constexpr std::size_t kReadBytes = 8U << 10;
  using Tls = asio::ssl::stream<tcp::socket&>;

  awaitable<void> serve();
  awaitable<bool> shake_hands();
  awaitable<void> read_all();
  awaitable<std::size_t> read_some();
  // Until the condition holds; false when the time has come before.
  template <class Condition>
  awaitable<bool> wait(Condition condition, Clock::time_point deadline);
  awaitable<bool> write(std::string_view bytes);
  awaitable<bool> answer_one();
  awaitable<bool> read_head(HttpParser& parser);
  awaitable<bool> read_body(HttpParser& parser);
  awaitable<bool> reply_and_linger(HttpReply reply);
  awaitable<bool> respond(HttpExchange& exchange, const HttpParser& parser);
  awaitable<bool> send_work(HttpExchange::Work work, const HttpParser& parser);
  awaitable<bool> probe(HttpExchange& exchange, const HttpParser& parser);
  void feed(HttpParser& parser);
  std::shared_ptr<HttpExchange> make_exchange();

  std::shared_ptr<HttpCore> server_;
  tcp::socket socket_;
  const bool is_late_;  // accepted while the server ends
  std::optional<Tls> tls_;
  asio::steady_timer wake_, reader_wake_, write_timer_;
  std::string in_;      // received, not parsed yet
  bool ended_ = false;  // the client sends no more
  bool lost_ = false;   // and receives no more
  bool streaming_ = false, head_only_ = false;
  std::string peer_;
  std::vector<HttpHeader> extra_headers_;
  std::array<char, kReadBytes> buffer_;
};

}  // namespace orrery::net
