#include "net/http_parser.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace orrery::net {
namespace {

using State = HttpParser::State;

// Feeds the bytes in steps of `step`; what is left belongs to a next request.
std::string feed(HttpParser& parser, std::string bytes, std::size_t step) {
  while (!bytes.empty() && parser.state() != State::done && parser.state() != State::failed) {
    const std::string part = bytes.substr(0, step);
    const std::size_t used = parser.push(part);
    bytes.erase(0, used);
    if (used == 0) break;
  }
  return bytes;
}

std::string request(const std::string& first_line, const std::string& headers = "",
                    const std::string& body = "") {
  return first_line + "\r\nHost: localhost\r\n" + headers + "\r\n" + body;
}

int status_of(const std::string& bytes, std::size_t step = 1 << 20) {
  HttpParser parser(HttpLimits{});
  feed(parser, bytes, step);
  return parser.state() == State::failed ? parser.fault().status : 0;
}

TEST(HttpParser, ReadsARequestHoweverItIsCut) {
  const std::string bytes = request("POST /v1/a%20b?x=1 HTTP/1.1",
                                    "Content-Length: 5\r\nX-Thing:  two words \r\n", "hello") +
                            "GET / HTTP/1.1\r\n";
  for (const std::size_t step : {1, 2, 3, 7, 1 << 20}) {
    HttpParser parser(HttpLimits{});
    const std::string rest = feed(parser, bytes, step);
    ASSERT_EQ(parser.state(), State::done) << step;
    EXPECT_EQ(rest, "GET / HTTP/1.1\r\n");
    const HttpRequest& r = parser.request();
    EXPECT_EQ(r.method, "POST");
    EXPECT_EQ(r.path, "/v1/a b");
    EXPECT_EQ(r.query, "x=1");
    EXPECT_EQ(r.header("x-thing"), "two words");
    EXPECT_EQ(r.body, "hello");
    EXPECT_TRUE(parser.keep_alive());
  }
}

TEST(HttpParser, ReadsChunkedBodiesHoweverTheyAreCut) {
  const std::string bytes =
      request("POST / HTTP/1.1", "Transfer-Encoding: chunked\r\n",
              "3;ext=1\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: x\r\n\r\n") +
      "NEXT";
  for (const std::size_t step : {1, 2, 5, 1 << 20}) {
    HttpParser parser(HttpLimits{});
    EXPECT_EQ(feed(parser, bytes, step), "NEXT");
    ASSERT_EQ(parser.state(), State::done) << step;
    EXPECT_EQ(parser.request().body, "abc0123456789abcdef");
  }
}

TEST(HttpParser, KeepsTheConnectionAsAsked) {
  const auto keeps = [](const std::string& bytes) {
    HttpParser parser(HttpLimits{});
    feed(parser, bytes, 1 << 20);
    EXPECT_EQ(parser.state(), State::done);
    return parser.keep_alive();
  };
  EXPECT_TRUE(keeps(request("GET / HTTP/1.1")));
  EXPECT_FALSE(keeps(request("GET / HTTP/1.1", "Connection: close\r\n")));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps(request("GET / HTTP/1.0", "Connection: Keep-Alive\r\n")));
}

struct Refused {
  const char* what;
  std::string bytes;
  int status;
};

std::vector<Refused> refused_heads() {
  const std::string line = "GET / HTTP/1.1";
  std::string many;
  for (int i = 0; i < 100; ++i) many += "a: b\r\n";  // and the host
  return {
      {"17 KiB of headers", request(line, "X: " + std::string(17 << 10, 'x') + "\r\n"), 431},
      {"101 headers", request(line, many), 431},
      {"no colon", request(line, "nonsense\r\n"), 400},
      {"blank in the name", request(line, "Content-Length : 5\r\n"), 400},
      {"folded", request(line, "A: b\r\n c\r\n"), 400},
      {"NUL", request(line, std::string("A: b\0c\r\n", 8)), 400},
      {"bare LF", "GET / HTTP/1.1\nHost: x\n\n", 400},
      {"bare CR", request(line, "A: b\rc\r\n"), 400},
      {"two hosts", request(line, "Host: other\r\n"), 400},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"trace", request("TRACE / HTTP/1.1"), 405},
      {"connect", request("CONNECT a:1 HTTP/1.1"), 405},
      {"garbage", request("BREW / HTTP/1.1"), 501},
      {"lower case", request("get / HTTP/1.1"), 501},
      {"absolute", request("GET http://evil/ HTTP/1.1"), 400},
      {"escaped NUL", request("GET /%00 HTTP/1.1"), 400},
      {"broken escape", request("GET /%2 HTTP/1.1"), 400},
      {"overlong", request("GET /%c0%af HTTP/1.1"), 400},
      {"surrogate", request("GET /%ed%a0%80 HTTP/1.1"), 400},
      {"long target", request("GET /" + std::string(9 << 10, 'a') + " HTTP/1.1"), 414},
      {"HTTP/0.9", "GET /\r\n\r\n", 400},
      {"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"TLS", std::string("\x16\x03\x01\x02\x00\x01\x00", 7), 400},
      {"WebSocket", request(line, "Upgrade: WebSocket\r\n"), 400},
      {"expectation", request(line, "Expect: 200-ok\r\n"), 417},
      {"gzip", request("POST / HTTP/1.1", "Content-Encoding: gzip\r\n"), 415},
  };
}

TEST(HttpParser, RefusesHeadsWithTheirStatus) {
  for (const Refused& r : refused_heads()) {
    EXPECT_EQ(status_of(r.bytes), r.status) << r.what;
    EXPECT_EQ(status_of(r.bytes, 1), r.status) << r.what << ", byte by byte";
  }
}

std::vector<Refused> refused_bodies() {
  const auto post = [](const std::string& headers, const std::string& body = "") {
    return request("POST / HTTP/1.1", headers, body);
  };
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  return {
      {"both lengths", post("Content-Length: 3\r\n" + chunked, "0\r\n\r\n"), 400},
      {"two lengths", post("Content-Length: 3\r\nContent-Length: 4\r\n"), 400},
      {"plus", post("Content-Length: +5\r\n"), 400},
      {"hex", post("Content-Length: 0x5\r\n"), 400},
      {"negative", post("Content-Length: -1\r\n"), 400},
      {"empty", post("Content-Length:\r\n"), 400},
      {"2^64", post("Content-Length: 18446744073709551616\r\n"), 400},
      {"one too large", post("Content-Length: 16777217\r\n"), 413},
      {"other coding", post("Transfer-Encoding: gzip, chunked\r\n"), 501},
      {"old chunks", "POST / HTTP/1.0\r\n" + chunked + "\r\n", 400},
      {"16 digits", post(chunked, "FFFFFFFFFFFFFFFF\r\n"), 413},
      {"17 digits", post(chunked, "10000000000000000\r\n"), 400},
      {"no CR LF", post(chunked, "3\r\nabcXY0\r\n\r\n"), 400},
      {"no size", post(chunked, "\r\n\r\n\r\n"), 400},
      {"endless line", post(chunked, "3;" + std::string(1 << 16, 'x')), 400},
      {"endless trailers", post(chunked, "0\r\n" + std::string(1 << 16, 'x')), 400},
  };
}

TEST(HttpParser, RefusesBodiesWithTheirStatus) {
  for (const Refused& r : refused_bodies()) {
    EXPECT_EQ(status_of(r.bytes), r.status) << r.what;
    EXPECT_EQ(status_of(r.bytes, 1), r.status) << r.what << ", byte by byte";
  }
}

TEST(HttpParser, TakesManySmallChunksUpToTheLimitOfTheBody) {
  HttpLimits limits;
  limits.body_bytes = 1000;
  std::string bytes = request("POST / HTTP/1.1", "Transfer-Encoding: chunked\r\n");
  for (int i = 0; i < 1000; ++i) bytes += "1\r\nx\r\n";
  HttpParser fits(limits);
  feed(fits, bytes + "0\r\n\r\n", 100);
  EXPECT_EQ(fits.state(), State::done);
  EXPECT_EQ(fits.request().body.size(), 1000U);
  HttpParser more(limits);
  feed(more, bytes + "1\r\nx\r\n", 100);
  EXPECT_EQ(more.state(), State::failed);
  EXPECT_EQ(more.fault().status, 413);
}

}  // namespace
}  // namespace orrery::net
