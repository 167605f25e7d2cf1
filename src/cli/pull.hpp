// orrery pull: a model file from a Hugging Face repository or an address into the cache.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.hpp"

namespace orrery::cli {

struct PullState {
  std::string file, path;     // its name, and where it will be
  std::string sha256;         // hex; "" where the source does not say
  std::uint64_t done, total;  // bytes; total 0: not known yet
};
// Called a few times a second; false stops the download.
using PullWatch = std::function<bool(const PullState&)>;

struct PulledFile {
  std::string path;
  bool was_there = false;  // already, with the right checksum
};

// Errors: E_NOMODEL for a name that says nowhere, those of net::download, E_CHECKSUM.
Result<PulledFile> pull_file(const std::string& name, const PullWatch& watch);

// The same, with a line of progress and the path on stdout.
Status pull_model(const std::string& name);

}  // namespace orrery::cli
