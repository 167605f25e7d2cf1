#include "engine/stop_strings.hpp"

#include <algorithm>
#include <utility>

namespace orrery::engine {
namespace {

// Length of the longest end of `text` that begins `stop` without completing it.
std::size_t open_end(std::string_view text, std::string_view stop) {
  for (std::size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.ends_with(stop.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  std::erase_if(strings_, [](const std::string& s) { return s.empty(); });
}

void StopStrings::push(std::string_view text, std::string& out) {
  if (found_) return;
  held_ += text;
  std::size_t first = std::string::npos;
  std::size_t open = 0;
  for (const std::string& stop : strings_) {
    if (const std::size_t at = held_.find(stop); at < first) {
      first = at;
      found_string_ = stop;
    }
    open = std::max(open, open_end(held_, stop));
  }
  found_ = first != std::string::npos;
  const std::size_t safe = found_ ? first : held_.size() - open;
  out.append(held_, 0, safe);
  held_.erase(0, found_ ? held_.size() : safe);
}

void StopStrings::finish(std::string& out) {
  out += held_;
  held_.clear();
}

}  // namespace orrery::engine
