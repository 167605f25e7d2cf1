// A line of JSON for each request when it has ended: what it cost, and nothing of what was asked or
// written, no key and no address.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/scheduler.hpp"

namespace orrery::server {

// Gets a line without its end. Called on any thread, by several at once.
using LogLine = std::function<void(std::string_view line)>;

class LogEntry {
 public:
  // `path` is that of the route: what clients put into one is left out.
  LogEntry(const LogLine& write, std::string_view method, std::string_view path, std::string id)
      : write_(write), method_(method), path_(path), id_(std::move(id)) {}
  LogEntry(const LogEntry&) = delete;
  LogEntry& operator=(const LogEntry&) = delete;
  ~LogEntry();  // writes; status 0: the client went away before there was an answer

  void set_status(int status) { status_ = status; }
  // One of its answers has ended.
  void add(std::string_view model, const engine::RequestEnd& end);

 private:
  const LogLine& write_;
  std::string_view method_, path_;
  std::string id_;  // of the request
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int status_ = 0;
  std::string model_;
  std::string_view finish_;
  std::uint32_t answers_ = 0, prompt_tokens_ = 0, cached_tokens_ = 0, new_tokens_ = 0;
  double queue_seconds_ = 0, prefill_seconds_ = 0, decode_seconds_ = 0;
};

}  // namespace orrery::server
