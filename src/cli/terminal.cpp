#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace orrery::cli {
namespace {
constexpr std::size_t kMaxLine = 1024;
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.size() >= kMaxLine) return out + "...";
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

void print_error(std::string_view line) {
  if (stderr_has_colour()) {
    fmt::print(stderr, "\x1b[31m{}\x1b[0m\n", line);
  } else {
    fmt::print(stderr, "{}\n", line);
  }
}

void print_note(std::string_view line) {
  fmt::print(stderr, "{}\n", line);
}

// A failed write is seen once, by the check of stdout at the end.
void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

bool stdin_is_terminal() {
  return isatty(STDIN_FILENO) != 0;
}
bool stdout_is_terminal() {
  return isatty(STDOUT_FILENO) != 0;
}

bool stderr_has_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDERR_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0');
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace orrery::cli
