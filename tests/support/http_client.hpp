// A client of the HTTP server of a test: bytes in, bytes out.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

namespace orrery::test {

class HttpClient {
 public:
  // `seconds`: as long it waits for bytes.
  explicit HttpClient(std::uint16_t port, int seconds = 10)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval limit{seconds, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void send(const std::string& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const auto n = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
  }
  // Until the text is there, or the server has closed.
  std::string read_until(const std::string& text) {
    char buffer[4096];
    while (text.empty() || got_.find(text) == std::string::npos) {
      const auto n = recv(socket_, buffer, sizeof buffer, 0);
      if (n <= 0) break;
      got_.append(buffer, static_cast<std::size_t>(n));
    }
    return std::exchange(got_, {});
  }
  std::string read_all() { return read_until(""); }
  void end_sending() { shutdown(socket_, SHUT_WR); }
  void reset() {
    const linger hard{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  bool connected() const { return connected_; }

 private:
  int socket_;
  bool connected_ = false;
  std::string got_;
};

}  // namespace orrery::test
