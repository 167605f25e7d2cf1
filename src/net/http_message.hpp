// What an HTTP server receives and sends, as plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::net {

struct HttpHeader {
  std::string name;  // of a request: lower case
  std::string value;
};

struct HttpRequest {
  std::string method;  // "GET", ...
  std::string path;    // percent-decoded, valid UTF-8, begins with '/'
  std::string query;   // as it was sent, without the '?'
  std::vector<HttpHeader> headers;
  std::string body;
  std::string peer;  // address of the other end, without its port
  std::string id;    // that answers and logs name it by; given by HttpServerOptions::admit

  // The value of a header that is there exactly once; else "".
  std::string_view header(std::string_view lower_case_name) const;
  std::size_t count(std::string_view lower_case_name) const;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers;  // besides type, length and connection
  std::string body;
};

struct HttpLimits {
  std::size_t head_bytes = 16U << 10;  // request line and headers
  std::size_t headers = 100;
  std::size_t target_bytes = 8U << 10;
  std::uint64_t body_bytes = 16U << 20;
};

// "Not Found"; "" for a status that this server does not use.
std::string_view reason_phrase(int status);

}  // namespace orrery::net
