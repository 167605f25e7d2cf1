#include "cli/model_arg.hpp"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

#include "storage/io.hpp"
#include "storage/locate.hpp"

namespace orrery::cli {
namespace {
constexpr std::uint64_t kMaxText = 64ULL << 20;
}

Result<std::string> locate_model(const std::string& name) {
  return storage::locate(name, storage::system_io(), storage::Environment::of_process());
}

Result<std::string> read_text(const std::string& path) {
  if (path != "-") return storage::system_io().read_file(path, kMaxText);
  std::string text;
  for (char buffer[1 << 16]; std::cin.read(buffer, sizeof buffer) || std::cin.gcount() > 0;) {
    text.append(buffer, static_cast<std::size_t>(std::cin.gcount()));
    if (text.size() > kMaxText) return fail("E_TOOBIG", "standard input holds more than 64 MiB");
  }
  return text;
}

std::string forced_isa() {
  const char* forced = std::getenv("ORRERY_ISA");
  return forced == nullptr ? "" : forced;
}

}  // namespace orrery::cli
