// One HTTP/1.1 request out of bytes. Strict where others are lenient: what two programs could read
// as two different messages is refused, with the status that says why.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_message.hpp"

namespace orrery::net {

struct HttpFault {
  int status = 400;
  std::string_view message;  // a sentence
};

class HttpParser {
 public:
  enum class State { head, body, done, failed };

  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();

  // Takes bytes from the front of `bytes` and says how many; none of a next request. Takes at most
  // the head in one call, so that the caller can look at it before the body.
  std::size_t push(std::string_view bytes);

  State state() const { return state_; }
  const HttpFault& fault() const { return fault_; }  // valid when failed
  HttpRequest& request() { return request_; }        // its head is valid from state body on
  bool keep_alive() const { return keep_alive_; }
  bool is_http_1_0() const { return http_1_0_; }
  bool expects_continue() const { return expects_continue_; }

 private:
  struct Framing;  // lengths and chunks of the body

  void fail(int status, std::string_view message);
  std::size_t push_head(std::string_view bytes);
  std::size_t push_body(std::string_view bytes);
  void parse_head();
  bool parse_request_line(std::string_view line);
  bool parse_target(std::string_view target);
  bool parse_header(std::string_view line);
  bool check_headers();
  bool check_length();

  HttpLimits limits_;
  State state_ = State::head;
  HttpFault fault_;
  HttpRequest request_;
  std::string head_;     // bytes of the head so far
  std::string pending_;  // of a chunk's line that is not whole yet
  bool keep_alive_ = true, http_1_0_ = false, expects_continue_ = false;
  std::unique_ptr<Framing> framing_;
};

}  // namespace orrery::net
