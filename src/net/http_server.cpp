#include "net/http_server.hpp"

#include <fmt/format.h>

#include <boost/asio/executor_work_guard.hpp>
#include <thread>

#include "net/http_connection.hpp"

namespace orrery::net {
namespace {

// For what answers say when their time is over.
constexpr milliseconds kLastWords{1000};

}  // namespace

Status HttpCore::load_certificate() {
  if (options.certificate.empty() && options.key.empty()) return {};
  tls.emplace(asio::ssl::context::tls_server);
  ErrorCode error;
  tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1,
                   error);
  tls->use_certificate_chain_file(options.certificate, error);
  if (error) {
    return fail("E_TLS", fmt::format("{}: no chain of PEM certificates can be read from it ({})",
                                     options.certificate, error.message()));
  }
  tls->use_private_key_file(options.key, asio::ssl::context::pem, error);
  if (error) {
    return fail("E_TLS", fmt::format("{}: no PEM key of the certificate can be read from it ({})",
                                     options.key, error.message()));
  }
  return {};
}

Status HttpCore::listen() {
  ErrorCode error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  const auto refused = [&] {
    return fail("E_ADDRESS", fmt::format("{} port {} cannot be listened on: {}{}", options.host,
                                         options.port, error.message(),
                                         error == asio::error::address_in_use
                                             ? "; another server has it, choose another with --port"
                                             : ""));
  };
  if (error) return refused();
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) return refused();
  port = acceptor.local_endpoint(error).port();
  return {};
}

awaitable<void> HttpCore::accept_all() {
  while (acceptor.is_open()) {
    ErrorCode error = asio::error::no_descriptors;
    tcp::socket socket(io);
    if (connections.size() < options.max_connections) {
      error = std::get<0>(co_await acceptor.async_accept(socket, kNoThrow));
    }
    if (!acceptor.is_open() || error == asio::error::operation_aborted) co_return;
    if (!error) {
      const auto connection = std::make_shared<Connection>(shared_from_this(), std::move(socket));
      connections.insert(connection.get());
      count = connections.size();
      connection->start();
      continue;
    }
    // No descriptor or no memory is left, or the client was faster: the queue of the system waits.
    if (error == asio::error::connection_aborted) continue;
    retry.expires_after(milliseconds(50));
    co_await retry.async_wait(kNoThrow);
  }
}

void HttpCore::forget(Connection* connection) {
  connections.erase(connection);
  count = connections.size();
  if (awaited.erase(connection) > 0 && awaited.empty()) end_drain();
  if (connections.empty() && !acceptor.is_open() && drained != nullptr) {
    drained->set_value();
    drained.reset();
    grace_timer.cancel();
  }
}

// Nobody is left who was there before.
void HttpCore::end_drain() {
  ErrorCode ignored;
  acceptor.close(ignored);
  close_all();
}

void HttpCore::close_all() {
  const auto open = connections;  // closing one may make another forget itself later, not now
  for (Connection* connection : open) connection->close();
}

void HttpCore::close_all_after(milliseconds time) {
  grace_timer.expires_after(time);
  grace_timer.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error) self->close_all();
  });
}

void HttpCore::drain(milliseconds grace, std::function<void()> late,
                     std::shared_ptr<std::promise<void>> done) {
  draining = true;
  awaited = connections;
  if (awaited.empty()) {
    end_drain();
    return done->set_value();
  }
  drained = std::move(done);
  for (Connection* connection : awaited) connection->notify();
  if (!late) return close_all_after(grace);
  grace_timer.expires_after(grace);
  grace_timer.async_wait([self = shared_from_this(), late = std::move(late)](ErrorCode error) {
    if (error || self->drained == nullptr) return;  // all had ended
    late();
    self->close_all_after(kLastWords);
  });
}

namespace {

class Server final : public HttpServer {
 public:
  explicit Server(HttpServerOptions options)
      : shared_(std::make_shared<HttpCore>(std::move(options))),
        work_(shared_->io.get_executor()) {}

  Status start() {
    ORRERY_TRY_VOID(shared_->load_certificate());
    ORRERY_TRY_VOID(shared_->listen());
    asio::co_spawn(
        shared_->io, [shared = shared_] { return shared->accept_all(); }, asio::detached);
    thread_ = std::thread([shared = shared_] { shared->io.run(); });
    return {};
  }

  ~Server() override {
    if (!thread_.joinable()) return;
    drain(milliseconds(0), {});
    work_.reset();
    thread_.join();
  }

  std::uint16_t port() const override { return shared_->port; }
  std::size_t connections() const override { return shared_->count; }

  void drain(milliseconds grace, std::function<void()> late) override {
    auto done = std::make_shared<std::promise<void>>();
    auto ended = done->get_future();
    asio::post(shared_->io, [shared = shared_, grace, late = std::move(late), done] {
      shared->drain(grace, late, done);
    });
    ended.wait();
  }

 private:
  std::shared_ptr<HttpCore> shared_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options) {
  auto server = std::make_unique<Server>(std::move(options));
  ORRERY_TRY_VOID(server->start());
  return server;
}

}  // namespace orrery::net
