// Who may ask: keys, names of the server (against DNS rebinding) and origins of web pages (against
// forged requests from a browser).
#pragma once

#include <string>
#include <string_view>

#include "net/http_message.hpp"
#include "server/app.hpp"

namespace orrery::server {

// "localhost" of "localhost:8080", "[::1]" of "[::1]:80"; "" for what is no host.
std::string_view host_name(std::string_view host_and_port);
// An IP literal, localhost or one of the allowed names. A rebound name is none of these.
bool is_known_host(std::string_view host_header, const Access& access);
// The page's origin is this server, a page of this machine or an allowed one.
bool is_known_origin(std::string_view origin, std::string_view host_header, const Access& access);

struct KeyCheck {
  bool allowed = false;
  std::string domain;  // of the key
};
// Authorization: Bearer, or x-api-key; both must agree when both are sent. Takes the same time
// whatever the key.
KeyCheck check_key(const net::HttpRequest& request, const Access& access);

// SHA-256 in 64 lower-case hex digits.
std::string text_digest(std::string_view text);

}  // namespace orrery::server
