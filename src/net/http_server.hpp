// An HTTP/1.1 server on one thread of its own: thousands of slow streams, each with deadlines and a
// bounded buffer. Handlers are called on that thread and return at once; they answer later, from
// any thread, through the HttpResponse.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "net/http_message.hpp"

namespace orrery::net {

// The answer to one request; every function may be called from any thread. A response that its
// holders drop without an end closes the connection.
class HttpResponse {
 public:
  virtual ~HttpResponse() = default;
  // The whole answer. After it, or after begin(), further calls of send() and begin() do nothing.
  virtual void send(HttpReply reply) = 0;
  // The head of a stream; its body is what write() gets. `probe` is text that the format ignores (a
  // comment): it is written when nothing else was for a while, and when the client has shut down
  // its sending side, to see whether it still listens. An empty one takes that for the end.
  virtual void begin(HttpReply head, std::string probe) = 0;
  // Also before begin(): the bytes then wait for it, and send() drops them. False when the client
  // is gone, or so slow that more than 256 KiB wait for it.
  virtual bool write(std::string_view bytes) = 0;
  virtual void finish() = 0;
  virtual bool is_gone() const = 0;
  // Called once, if the client goes away before the end; at once if it is gone already. On the
  // server's thread or on that of the caller.
  virtual void on_gone(std::function<void()> callback) = 0;
};

struct HttpTimeouts {
  std::chrono::milliseconds idle{75'000};  // between two requests of a connection
  std::chrono::milliseconds head{10'000};  // from the first byte to the end of the headers: 408
  std::chrono::milliseconds body{30'000};  // without a further byte of the body: 408
  std::chrono::milliseconds body_total{600'000};
  std::chrono::milliseconds write{30'000};  // without progress: the connection is closed
  std::chrono::milliseconds probe{10'000};  // of silence in a stream, then its probe is written
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // a numeric address or a name of this machine
  std::uint16_t port = 8080;       // 0: any free one
  std::string certificate, key;    // PEM files; both or none (no TLS)
  HttpLimits limits;
  HttpTimeouts timeouts;
  std::size_t max_connections = 16'384;  // more wait in the system's queue
  // Looks at the head of a request before its body is read, and gives it an id; true lets it in,
  // else it has filled the reply. Headers of the reply go with the answer of a request that is let
  // in, too.
  std::function<bool(HttpRequest& head, HttpReply& reply)> admit;
  std::function<void(HttpRequest request, std::shared_ptr<HttpResponse> response)> handle;
  // The reply to a request that is malformed, too large or too slow. `head`: what admit() has let
  // in, or null where the fault is before that.
  std::function<HttpReply(int status, std::string_view message, const HttpRequest* head)> fault;
};

class HttpServer {
 public:
  // E_ADDRESS when the address cannot be had, E_TLS when certificate or key are of no use.
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options);
  virtual ~HttpServer() = default;  // closes whatever is open

  virtual std::uint16_t port() const = 0;
  virtual std::size_t connections() const = 0;
  // Lets the answers in progress end for so long, then calls `late` on the network thread, where
  // given, and lets them end for another second; the rest is closed. Until then who comes gets one
  // answer, so that it hears why. Returns when nothing is open.
  virtual void drain(std::chrono::milliseconds grace, std::function<void()> late = {}) = 0;
};

}  // namespace orrery::net
