#include "cli/model_arg.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "storage/io.hpp"
#include "storage/locate.hpp"

namespace orrery::cli {
namespace {
constexpr std::uint64_t kMaxText = 64ULL << 20;
}

Result<std::string> locate_model(const std::string& name) {
  return storage::locate(name, storage::system_io(), storage::Environment::of_process());
}

// Texts may come through pipes (<(command), /dev/stdin), which model files may not.
Result<std::string> read_text(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) return fail("E_NOTFILE", path + " is a folder");
    file.open(path, std::ios::binary);
    if (!file) return fail("E_NOTFOUND", path + ": " + std::strerror(errno));
  }
  std::istream& input = path == "-" ? std::cin : file;
  std::string text;
  for (char buffer[1 << 16]; input.read(buffer, sizeof buffer) || input.gcount() > 0;) {
    text.append(buffer, static_cast<std::size_t>(input.gcount()));
    if (text.size() > kMaxText) return fail("E_TOOBIG", path + " holds more than 64 MiB");
  }
  if (input.bad()) return fail("E_READ", path + " cannot be read");
  return text;
}

std::string forced_isa() {
  const char* forced = std::getenv("ORRERY_ISA");
  return forced == nullptr ? "" : forced;
}

}  // namespace orrery::cli
