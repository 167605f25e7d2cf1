// One file from an HTTP(S) server into a folder: resumed where it stopped, verified, never half
// there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.hpp"

namespace orrery::net {

struct DownloadRequest {
  std::string url;     // https, or http to this machine
  std::string target;  // final path; bytes arrive in target + ".part"
  std::string bearer;  // access token for the first host, or ""
  // Called a few times a second; false stops the download (E_CANCELLED), the part stays.
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;
  // Called with the path of the whole part before it gets its name; an error removes the part.
  std::function<Status(const std::string& part)> verify;
};

// Errors: E_URL, E_HTTP (with the status and what it means), E_NETWORK, E_DISK, E_CANCELLED, and
// what `verify` says. After any error but that of `verify` a second call resumes.
Status download(const DownloadRequest& request);

// The body of a small document; E_TOOBIG above `limit` bytes.
Result<std::string> fetch(const std::string& url, const std::string& bearer, std::uint64_t limit);

}  // namespace orrery::net
