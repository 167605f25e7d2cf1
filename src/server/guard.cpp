#include "server/guard.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

namespace orrery::server {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest sha256(std::string_view text) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

bool is_ip_literal(std::string_view host) {
  if (host.starts_with('[')) {
    return host.ends_with(']') && host.size() > 3 &&
           host.substr(1, host.size() - 2).find_first_not_of("0123456789abcdefABCDEF:.") ==
               std::string_view::npos;
  }
  return std::ranges::count(host, '.') == 3 &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace

std::string_view host_name(std::string_view text) {
  const std::size_t bracket = text.find(']');
  const std::size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view host = text.substr(0, colon);
  if (colon != std::string_view::npos && !is_port(text.substr(colon + 1))) return {};
  if (host.starts_with('[') != host.ends_with(']')) return {};
  return host;
}

bool is_known_host(std::string_view header, const Access& access) {
  const std::string host = lower(host_name(header));
  if (host == "localhost" || is_ip_literal(host)) return true;
  return std::ranges::find(access.allowed_hosts, host) != access.allowed_hosts.end();
}

bool is_known_origin(std::string_view origin, std::string_view host_header, const Access& access) {
  if (std::ranges::find(access.allowed_origins, origin) != access.allowed_origins.end()) {
    return true;
  }
  if (std::ranges::find(access.allowed_origins, "*") != access.allowed_origins.end()) return true;
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  const std::string_view rest = origin.substr(scheme + 3);
  if (rest == host_header) return true;
  const std::string host = lower(host_name(rest));
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

KeyCheck check_key(const net::HttpRequest& request, const Access& access) {
  if (access.keys.empty()) return {true, ""};
  const std::size_t bearers = request.count("authorization");
  const std::size_t plain = request.count("x-api-key");
  const std::string_view authorization = request.header("authorization");
  const std::string_view x_api_key = request.header("x-api-key");
  constexpr std::string_view kBearer = "bearer ";
  const bool is_bearer = lower(authorization.substr(0, kBearer.size())) == kBearer;
  const std::string_view token =
      is_bearer ? authorization.substr(kBearer.size()) : std::string_view{};
  bool allowed = bearers <= 1 && plain <= 1 && bearers + plain >= 1;
  if (bearers == 1 && !is_bearer) allowed = false;
  if (bearers == 1 && plain == 1 && token != x_api_key) allowed = false;
  const std::string_view key = bearers == 1 ? token : x_api_key;
  const Digest given = sha256(key);
  bool known = false;
  for (const std::string& one : access.keys) {
    const Digest expected = sha256(one);
    known |= CRYPTO_memcmp(given.data(), expected.data(), given.size()) == 0;
  }
  if (!allowed || !known || key.empty()) return {};
  return {true, fmt::format("{:02x}", fmt::join(given, ""))};
}

std::string text_digest(std::string_view text) {
  return fmt::format("{:02x}", fmt::join(sha256(text), ""));
}

}  // namespace orrery::server
