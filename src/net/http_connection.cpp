#include "net/http_connection.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace orrery::net {
namespace {

constexpr std::size_t kReadAhead = 64U << 10;  // bytes that wait for the parser
constexpr milliseconds kLinger{2'000};  // what a refused client still sends is read for so long
constexpr std::uint64_t kLingerBytes = 64U << 20;

std::string head_text(const HttpReply& reply, std::string_view framing, bool keep_alive) {
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", reply.status,
                  reason_phrase(reply.status), fmt::gmtime(std::time(nullptr)));
  const auto add = [&text](std::string_view name, std::string_view value) {
    text += name;
    text += ": ";
    for (const char c : value) text += c < 0x20 || c == 0x7F ? ' ' : c;
    text += "\r\n";
  };
  if (!reply.content_type.empty()) add("Content-Type", reply.content_type);
  for (const HttpHeader& h : reply.headers) add(h.name, h.value);
  text += framing;
  add("Connection", keep_alive ? "keep-alive" : "close");
  text += "\r\n";
  return text;
}

}  // namespace

Connection::Connection(std::shared_ptr<HttpCore> server, tcp::socket socket)
    : server_(std::move(server)),
      socket_(std::move(socket)),
      is_late_(server_->draining),
      wake_(server_->io),
      reader_wake_(server_->io),
      write_timer_(server_->io) {
  ErrorCode ignored;
  const auto remote = socket_.remote_endpoint(ignored);
  if (!ignored) peer_ = remote.address().to_string(ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  if (server_->tls) tls_.emplace(socket_, *server_->tls);
}

void Connection::start() {
  asio::co_spawn(
      server_->io,
      [self = shared_from_this()]() -> awaitable<void> {
        co_await self->serve();
        self->close();
        self->server_->forget(self.get());
      },
      asio::detached);
}

void Connection::close() {
  ErrorCode ignored;
  lost_ = ended_ = true;
  socket_.close(ignored);
  wake_.cancel();
  reader_wake_.cancel();
}

template <class Condition>
awaitable<bool> Connection::wait(Condition condition, Clock::time_point deadline) {
  while (!condition()) {
    if (Clock::now() >= deadline) co_return false;
    wake_.expires_at(deadline);
    co_await wake_.async_wait(kNoThrow);
  }
  co_return true;
}

awaitable<bool> Connection::shake_hands() {
  write_timer_.expires_after(server_->options.timeouts.head);
  write_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
    if (!error) self->close();
  });
  const auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kNoThrow);
  write_timer_.cancel();
  co_return !error;
}

awaitable<std::size_t> Connection::read_some() {
  const auto into = asio::buffer(buffer_);
  if (tls_) {
    const auto [error, bytes] = co_await tls_->async_read_some(into, kNoThrow);
    if (error) lost_ = true;
    co_return error ? 0 : bytes;
  }
  const auto [error, bytes] = co_await socket_.async_read_some(into, kNoThrow);
  if (error && error != asio::error::eof) lost_ = true;
  co_return error ? 0 : bytes;
}

awaitable<void> Connection::read_all() {
  while (!ended_) {
    while (in_.size() >= kReadAhead && !ended_) {
      reader_wake_.expires_at(Clock::time_point::max());
      co_await reader_wake_.async_wait(kNoThrow);
    }
    if (ended_) break;
    const std::size_t bytes = co_await read_some();
    if (bytes == 0) ended_ = true;
    in_.append(buffer_.data(), bytes);
    notify();
  }
  if (lost_ || tls_) co_return;
  // The client may still listen; a reset ends this wait.
  co_await socket_.async_wait(tcp::socket::wait_error, kNoThrow);
  lost_ = true;
  notify();
}

awaitable<bool> Connection::write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (lost_) co_return false;
    write_timer_.expires_after(server_->options.timeouts.write);
    write_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
      if (!error) self->close();
    });
    const auto from = asio::buffer(bytes.data(), bytes.size());
    std::size_t written = 0;
    ErrorCode error;
    if (tls_) {
      std::tie(error, written) = co_await tls_->async_write_some(from, kNoThrow);
    } else {
      std::tie(error, written) = co_await socket_.async_write_some(from, kNoThrow);
    }
    write_timer_.cancel();
    if (error) {
      lost_ = true;
      co_return false;
    }
    bytes.remove_prefix(written);
  }
  co_return true;
}

void Connection::feed(HttpParser& parser) {
  in_.erase(0, parser.push(in_));
  if (in_.size() < kReadAhead) reader_wake_.cancel();
}

awaitable<bool> Connection::read_head(HttpParser& parser) {
  const HttpTimeouts& times = server_->options.timeouts;
  const auto idle_ends = [this] {
    return !in_.empty() || ended_ || (server_->draining && !is_late_);
  };
  if (!co_await wait(idle_ends, Clock::now() + times.idle) || in_.empty()) co_return false;
  const auto deadline = Clock::now() + times.head;
  while (true) {
    feed(parser);
    if (parser.state() == HttpParser::State::failed) {
      co_return co_await reply_and_linger(
          server_->options.fault(parser.fault().status, parser.fault().message, nullptr));
    }
    if (parser.state() != HttpParser::State::head) co_return true;
    if (!co_await wait([this] { return !in_.empty() || ended_; }, deadline)) {
      co_return co_await reply_and_linger(
          server_->options.fault(408, "the head of the request took too long", nullptr));
    }
    if (in_.empty()) co_return false;
  }
}

awaitable<bool> Connection::read_body(HttpParser& parser) {
  const HttpTimeouts& times = server_->options.timeouts;
  if (parser.expects_continue() && in_.empty()) {
    if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
  }
  const auto end = Clock::now() + times.body_total;
  while (parser.state() == HttpParser::State::body) {
    const auto deadline = std::min(end, Clock::now() + times.body);
    if (!co_await wait([this] { return !in_.empty() || ended_; }, deadline)) {
      co_return co_await reply_and_linger(
          server_->options.fault(408, "the body of the request took too long", &parser.request()));
    }
    if (in_.empty()) co_return false;
    feed(parser);
  }
  if (parser.state() == HttpParser::State::failed) {
    co_return co_await reply_and_linger(
        server_->options.fault(parser.fault().status, parser.fault().message, &parser.request()));
  }
  co_return true;
}

// The last answer of a connection. Closing while the client still sends would reset it, and the
// answer might never be seen.
awaitable<bool> Connection::reply_and_linger(HttpReply reply) {
  const std::string length = fmt::format("Content-Length: {}\r\n", reply.body.size());
  std::string text = head_text(reply, length, false);
  if (!head_only_) text += reply.body;
  if (!co_await write(text)) co_return false;
  ErrorCode ignored;
  if (!tls_) socket_.shutdown(tcp::socket::shutdown_send, ignored);
  const auto deadline = Clock::now() + kLinger;
  for (std::uint64_t dropped = 0; dropped < kLingerBytes && !ended_;) {
    dropped += in_.size();
    in_.clear();
    reader_wake_.cancel();
    if (!co_await wait([this] { return !in_.empty() || ended_; }, deadline)) break;
  }
  co_return false;
}

std::shared_ptr<HttpExchange> Connection::make_exchange() {
  // The context outlives whoever answers late.
  return std::make_shared<HttpExchange>([server = server_, weak = weak_from_this()] {
    asio::post(server->io, [weak] {
      if (const auto self = weak.lock()) self->notify();
    });
  });
}

awaitable<bool> Connection::answer_one() {
  HttpParser parser(server_->options.limits);
  head_only_ = streaming_ = false;
  if (!co_await read_head(parser)) co_return false;
  HttpRequest& request = parser.request();
  request.peer = peer_;
  head_only_ = request.method == "HEAD";
  HttpReply refusal;
  const bool admitted = server_->options.admit(request, refusal);
  if (!admitted && parser.state() == HttpParser::State::body) {
    co_return co_await reply_and_linger(std::move(refusal));
  }
  if (admitted && !co_await read_body(parser)) co_return false;
  const auto exchange = make_exchange();
  extra_headers_.clear();
  if (admitted) {
    extra_headers_ = std::move(refusal.headers);
    server_->options.handle(std::move(request),
                            {exchange.get(), [exchange](HttpResponse*) { exchange->abandon(); }});
  } else {
    exchange->send(std::move(refusal));
  }
  const bool whole = co_await respond(*exchange, parser);
  whole ? exchange->close() : exchange->set_gone();
  co_return whole&& parser.keep_alive() && !server_->draining;
}

awaitable<bool> Connection::respond(HttpExchange& exchange, const HttpParser& parser) {
  bool probed = false;
  while (true) {
    HttpExchange::Work work = exchange.take();
    if (work.broken) co_return false;
    if (work.head || !work.bytes.empty() || work.finished) {
      const bool finished = work.finished;
      if (!co_await send_work(std::move(work), parser)) co_return false;
      if (finished) co_return true;
      continue;
    }
    if (ended_ && !probed) {
      probed = true;
      if (!co_await probe(exchange, parser)) co_return false;
      continue;  // what came while it was written has woken nobody
    }
    if (lost_) co_return false;
    const bool probes = streaming_ && !exchange.probe().empty();
    const auto silence = server_->options.timeouts.probe;
    wake_.expires_at(probes ? Clock::now() + silence : Clock::time_point::max());
    const auto [error] = co_await wake_.async_wait(kNoThrow);
    if (!error && probes && !co_await probe(exchange, parser)) co_return false;
  }
}

// The client has shut down its side: one that only did that gets its answer, one that is gone
// answers the probe with a reset.
awaitable<bool> Connection::probe(HttpExchange& exchange, const HttpParser& parser) {
  if (lost_ || (tls_ && ended_)) co_return false;
  if (parser.is_http_1_0()) co_return true;
  if (!streaming_) co_return co_await write("HTTP/1.1 100 Continue\r\n\r\n");
  const std::string_view text = exchange.probe();
  if (text.empty()) co_return false;
  co_return co_await write(fmt::format("{:x}\r\n{}\r\n", text.size(), text));
}

awaitable<bool> Connection::send_work(HttpExchange::Work work, const HttpParser& parser) {
  const bool keep_alive = parser.keep_alive() && !server_->draining && !ended_;
  const bool chunked = work.stream && !parser.is_http_1_0() && !head_only_;
  std::string out;
  if (work.head) {
    work.reply.headers.insert(work.reply.headers.end(), extra_headers_.begin(),
                              extra_headers_.end());
  }
  if (work.head && work.stream) {
    out = head_text(work.reply, chunked ? "Transfer-Encoding: chunked\r\n" : "",
                    keep_alive && chunked);
    streaming_ = true;
  } else if (work.head) {
    const bool bare = work.reply.status == 204 || work.reply.status == 304;
    const std::string length = fmt::format("Content-Length: {}\r\n", work.reply.body.size());
    out = head_text(work.reply, bare ? "" : length, keep_alive);
    if (!head_only_ && !bare) out += work.reply.body;
  }
  if (!work.bytes.empty() && !head_only_) {
    out += chunked ? fmt::format("{:x}\r\n{}\r\n", work.bytes.size(), work.bytes) : work.bytes;
  }
  if (work.finished && chunked) out += "0\r\n\r\n";
  co_return co_await write(out);
}

awaitable<void> Connection::serve() {
  if (tls_ && !co_await shake_hands()) co_return;
  asio::co_spawn(
      server_->io, [self = shared_from_this()] { return self->read_all(); }, asio::detached);
  while (co_await answer_one()) {
  }
  if (tls_ && !lost_) {
    write_timer_.expires_after(kLinger);
    write_timer_.async_wait([self = shared_from_this()](ErrorCode error) {
      if (!error) self->close();
    });
    co_await tls_->async_shutdown(kNoThrow);
    write_timer_.cancel();
  }
}

}  // namespace orrery::net
