// What passes between those who answer (any thread) and the connection (the network thread).
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "net/http_server.hpp"

namespace orrery::net {

class HttpExchange final : public HttpResponse {
 public:
  static constexpr std::size_t kMaxWaiting = 256U << 10;  // bytes of a stream

  // `wake` is called, from any thread, whenever there is something new for the connection.
  explicit HttpExchange(std::function<void()> wake) : wake_(std::move(wake)) {}

  void send(HttpReply reply) override;
  void begin(HttpReply head, std::string probe) override;
  bool write(std::string_view bytes) override;
  void finish() override;
  bool is_gone() const override;
  void on_gone(std::function<void()> callback) override;

  // For the connection.
  struct Work {
    bool head = false;    // `reply` is new
    bool stream = false;  // its body follows
    HttpReply reply;
    std::string bytes;
    bool finished = false;
    bool broken = false;  // nobody reads it, or nobody writes it any more
  };
  Work take();
  std::string_view probe() const { return probe_; }  // valid once a stream's head was taken
  void set_gone();
  // The answer is written: nobody will be told anything any more.
  void close();
  // Those who should answer have dropped it.
  void abandon();

 private:
  mutable std::mutex mutex_;
  std::function<void()> wake_, gone_callback_;
  HttpReply reply_;
  std::string waiting_, probe_;
  bool begun_ = false, taken_ = false, stream_ = false, finished_ = false;
  bool gone_ = false, broken_ = false;
};

}  // namespace orrery::net
