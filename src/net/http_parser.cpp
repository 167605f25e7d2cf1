#include "net/http_parser.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>
#include <optional>
#include <utility>

namespace orrery::net {
namespace {

namespace http = boost::beast::http;

constexpr std::string_view kToken =
    "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
// A chunk's line with its extensions, and the fields behind the last chunk.
constexpr std::size_t kMaxChunkLine = 4096;

bool is_token(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kToken) == std::string_view::npos;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return lower(c); });
  return out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

// Nothing for a broken escape or an escaped NUL.
std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

// Bytes of the character that begins with these bits; 0: none does.
std::size_t utf8_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  return lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t k) { return static_cast<unsigned char>(text[i + k]); };
    const std::size_t length = utf8_length(at(0));
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((at(k) & 0xC0) != 0x80) return false;
    }
    // Overlong forms, surrogates, and what lies behind U+10FFFF.
    if (length == 3 && ((at(0) == 0xE0 && at(1) < 0xA0) || (at(0) == 0xED && at(1) > 0x9F))) {
      return false;
    }
    if (length == 4 && ((at(0) == 0xF0 && at(1) < 0x90) || (at(0) == 0xF4 && at(1) > 0x8F))) {
      return false;
    }
    i += length;
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::size_t HttpRequest::count(std::string_view name) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(headers, [&](const HttpHeader& h) { return h.name == name; }));
}

std::string_view HttpRequest::header(std::string_view name) const {
  std::string_view found;
  std::size_t times = 0;
  for (const HttpHeader& h : headers) {
    if (h.name == name && ++times == 1) found = h.value;
  }
  return times == 1 ? found : std::string_view{};
}

struct HttpParser::Framing {
  http::request_parser<http::string_body> parser;
};

HttpParser::HttpParser(const HttpLimits& limits) : limits_(limits) {}
HttpParser::~HttpParser() = default;

void HttpParser::fail(int status, std::string_view message) {
  state_ = State::failed;
  fault_ = {status, message};
  keep_alive_ = false;
}

std::size_t HttpParser::push(std::string_view bytes) {
  if (state_ == State::head) return push_head(bytes);
  if (state_ == State::body) return push_body(bytes);
  return 0;
}

std::size_t HttpParser::push_head(std::string_view bytes) {
  std::size_t used = 0;
  for (const char c : bytes) {
    ++used;
    if (head_.empty() && (c == '\r' || c == '\n')) continue;  // between two requests
    const char before = head_.empty() ? '\0' : head_.back();
    const auto code = static_cast<unsigned char>(c);
    if ((c == '\n') != (before == '\r')) {
      fail(400, "a line of the request does not end with CR LF");
    } else if ((code < 0x20 && c != '\r' && c != '\n' && c != '\t') || code == 0x7F) {
      fail(400, "a control character stands in the head of the request");
    } else if (head_.size() >= limits_.head_bytes) {
      fail(431, "the headers of the request are too long");
    } else if (head_.size() > limits_.target_bytes + 32 && !head_.contains('\n')) {
      fail(414, "the address of the request is too long");
    }
    if (state_ == State::failed) return used;
    head_ += c;
    if (c == '\n' && head_.ends_with("\r\n\r\n")) {
      parse_head();
      return used;
    }
  }
  return used;
}

void HttpParser::parse_head() {
  std::string_view rest = head_;
  const auto next_line = [&rest] {
    const std::size_t end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    return line;
  };
  if (!parse_request_line(next_line())) return;
  for (std::string_view line = next_line(); !line.empty(); line = next_line()) {
    if (!parse_header(line)) return;
  }
  if (!check_headers() || !check_length()) return;
  framing_ = std::make_unique<Framing>();
  framing_->parser.header_limit(static_cast<std::uint32_t>(limits_.head_bytes + 1));
  framing_->parser.body_limit(limits_.body_bytes);
  boost::system::error_code error;
  framing_->parser.put(boost::asio::buffer(head_), error);
  // The library's second opinion on the same bytes.
  if (error && error != http::error::need_more) {
    return error == http::error::body_limit ? fail(413, "the body of the request is too large")
                                            : fail(400, "the head of the request is malformed");
  }
  state_ = framing_->parser.is_done() ? State::done : State::body;
}

bool HttpParser::parse_request_line(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !is_token(line.substr(0, first))) {
    fail(400, "the first line is not METHOD TARGET HTTP/1.1");
    return false;
  }
  const std::string_view version = line.substr(last + 1);
  if (version.starts_with("HTTP/") && version != "HTTP/1.1" && version != "HTTP/1.0") {
    fail(505, "the server speaks HTTP/1.1");
    return false;
  }
  if (!version.starts_with("HTTP/")) {
    fail(400, "the first line is not METHOD TARGET HTTP/1.1");
    return false;
  }
  http_1_0_ = version == "HTTP/1.0";
  keep_alive_ = !http_1_0_;
  request_.method = line.substr(0, first);
  static constexpr std::array<std::string_view, 9> kKnown = {
      "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"};
  if (std::ranges::find(kKnown, request_.method) == kKnown.end()) {
    fail(501, "the method of the request is unknown");
    return false;
  }
  if (request_.method == "TRACE" || request_.method == "CONNECT") {
    fail(405, "the method of the request is not allowed");
    return false;
  }
  return parse_target(line.substr(first + 1, last - first - 1));
}

bool HttpParser::parse_target(std::string_view target) {
  if (target.size() > limits_.target_bytes) {
    fail(414, "the address of the request is too long");
    return false;
  }
  if (target == "*" && request_.method == "OPTIONS") target = "/";
  const bool plain = std::ranges::all_of(target, [](char c) { return c > 0x20 && c < 0x7F; });
  const std::size_t question = target.find('?');
  const auto path = percent_decode(target.substr(0, question));
  if (!plain || !target.starts_with('/') || target.contains('#') || !path || !is_utf8(*path)) {
    fail(400, "the address of the request is malformed");
    return false;
  }
  request_.path = *path;
  if (question != std::string_view::npos) request_.query = target.substr(question + 1);
  return true;
}

bool HttpParser::parse_header(std::string_view line) {
  if (request_.headers.size() >= limits_.headers) {
    fail(431, "the request has too many headers");
    return false;
  }
  const std::size_t colon = line.find(':');
  // A line that begins with a blank would continue the one before it (obsolete folding).
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    fail(400, "a header of the request is malformed");
    return false;
  }
  request_.headers.push_back(
      {lower(line.substr(0, colon)), std::string(trimmed(line.substr(colon + 1)))});
  return true;
}

bool HttpParser::check_headers() {
  const HttpRequest& r = request_;
  if (r.count("host") > 1 || (r.count("host") == 0 && !http_1_0_)) {
    fail(400, "a request has exactly one Host header");
    return false;
  }
  if (r.count("upgrade") > 0 && lower(r.header("upgrade")) == "websocket") {
    fail(400, "there are no WebSockets here");
    return false;
  }
  const std::string encoding = lower(r.header("content-encoding"));
  if (r.count("content-encoding") > 0 && encoding != "identity") {
    fail(415, "a body must not be compressed");
    return false;
  }
  if (r.count("expect") > 0) {
    if (lower(r.header("expect")) != "100-continue") {
      fail(417, "the server knows no expectation but 100-continue");
      return false;
    }
    expects_continue_ = !http_1_0_;
  }
  const std::string connection = lower(r.header("connection"));
  if (connection.contains("close")) keep_alive_ = false;
  if (http_1_0_ && connection.contains("keep-alive")) keep_alive_ = true;
  return true;
}

bool HttpParser::check_length() {
  const std::size_t lengths = request_.count("content-length");
  const std::size_t codings = request_.count("transfer-encoding");
  if (lengths + codings > 1 || (codings > 0 && http_1_0_)) {
    fail(400, "the length of the body is given twice");
    return false;
  }
  if (codings == 1 && lower(request_.header("transfer-encoding")) != "chunked") {
    fail(501, "the server knows no transfer encoding but chunked");
    return false;
  }
  if (lengths == 0) return true;
  const std::string_view text = request_.header("content-length");
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (text.empty() || text[0] == '-' || error != std::errc{} || end != text.data() + text.size()) {
    fail(400, "the length of the body is not a number");
    return false;
  }
  if (length > limits_.body_bytes) {
    fail(413, "the body of the request is too large");
    return false;
  }
  return true;
}

std::size_t HttpParser::push_body(std::string_view bytes) {
  auto& parser = framing_->parser;
  // The library wants to see a chunk's line whole: what it left is kept and shown again.
  const std::size_t held = pending_.size();
  const bool joined = held > 0;
  if (joined) pending_ += bytes;
  const std::string_view shown = joined ? std::string_view(pending_) : bytes;
  // A chunked body ends with five bytes at least. The library asserts that it sees so many once it
  // is at the last chunk.
  const std::size_t least = parser.chunked() ? 5 : 1;
  std::size_t used = 0;
  boost::system::error_code error;
  while (shown.size() - used >= least && !parser.is_done()) {
    const std::size_t step =
        parser.put(boost::asio::buffer(shown.data() + used, shown.size() - used), error);
    used += step;
    if (error || step == 0) break;
  }
  if (error && error != http::error::need_more) {
    const bool large = error == http::error::body_limit;
    fail(large ? 413 : 400,
         large ? "the body of the request is too large" : "the body of the request is malformed");
    return bytes.size();
  }
  if (parser.is_done()) {
    request_.body = std::move(parser.get().body());
    state_ = State::done;
    return used - std::min(used, held);
  }
  std::string rest(shown.substr(used));
  if (rest.size() > kMaxChunkLine) {
    fail(400, "a line between the chunks of the body is too long");
    return bytes.size();
  }
  pending_ = std::move(rest);
  return bytes.size();
}

std::string_view reason_phrase(int status) {
  static constexpr std::pair<int, std::string_view> kPhrases[] = {
      {100, "Continue"},
      {200, "OK"},
      {204, "No Content"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {411, "Length Required"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {421, "Misdirected Request"},
      {422, "Unprocessable Content"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
      {507, "Insufficient Storage"},
  };
  for (const auto& [code, phrase] : kPhrases) {
    if (code == status) return phrase;
  }
  return "";
}

}  // namespace orrery::net
