#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/clock.hpp"
#include "cli/terminal.hpp"

namespace orrery::cli {

Progress::Progress(std::string what) : what_(std::move(what)), start_(now_seconds()) {}

void Progress::update(std::uint64_t done, std::uint64_t total) {
  const double now = now_seconds();
  if (now - start_ < 1.0) return;
  const double rate = static_cast<double>(done) / (now - start_);
  const int percent = total == 0 ? 0 : static_cast<int>(100 * done / total);
  if (isatty(STDERR_FILENO) != 0) {
    if (now - drawn_ < 0.1) return;
    drawn_ = now;
    visible_ = true;
    fmt::print(stderr, "\r{}  {:3}%  {} of {}  {}/s   ", what_, percent, human_bytes(done),
               human_bytes(total), human_bytes(static_cast<std::uint64_t>(rate)));
    std::fflush(stderr);
  } else if (percent / 10 > tenth_) {
    tenth_ = percent / 10;
    print_note(fmt::format("{}  {}%", what_, percent));
  }
}

void Progress::finish() {
  if (visible_) fmt::print(stderr, "\n");
  visible_ = false;
}

}  // namespace orrery::cli
