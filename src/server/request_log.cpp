#include "server/request_log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

#include "server/json.hpp"
#include "server/metrics.hpp"

namespace orrery::server {

void LogEntry::add(std::string_view model, const engine::RequestEnd& end) {
  if (answers_++ == 0) {  // the others share its prompt
    model_ = model;
    prompt_tokens_ = end.prompt_tokens;
    cached_tokens_ = end.reused_tokens;
    queue_seconds_ = end.queue_seconds;
    prefill_seconds_ = end.prefill_seconds;
  }
  finish_ = end_name(end);
  new_tokens_ += end.new_tokens;
  decode_seconds_ = std::max(decode_seconds_, end.decode_seconds);
}

LogEntry::~LogEntry() {
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin_;
  const auto now = std::chrono::system_clock::now();
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  const auto rest = std::chrono::floor<std::chrono::milliseconds>(now - second);
  Json line = Json::object();
  line["time"] = fmt::format("{:%FT%T}.{:03}Z", second, rest.count());
  line["id"] = id_;
  line["method"] = method_;
  line["path"] = path_;
  line["status"] = status_;
  line["seconds"] = taken.count();
  if (answers_ > 0) {
    line["model"] = model_;
    line["finish"] = finish_;
    line["prompt_tokens"] = prompt_tokens_;
    line["cached_tokens"] = cached_tokens_;
    line["new_tokens"] = new_tokens_;
    line["queue_seconds"] = queue_seconds_;
    line["prefill_seconds"] = prefill_seconds_;
    line["decode_seconds"] = decode_seconds_;
  }
  write_(to_text(line));
}

}  // namespace orrery::server
