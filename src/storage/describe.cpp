#include "storage/describe.hpp"

#include <fmt/format.h>

namespace orrery::storage {
namespace {

std::string escaped(std::string_view bytes, std::size_t limit) {
  std::string text;
  for (const char c : bytes.substr(0, limit)) {
    if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (bytes.size() > limit) text += "...";
  return text;
}

}  // namespace

std::string in_quotes(std::string_view bytes, std::size_t limit) {
  return fmt::format("\"{}\"", escaped(bytes, limit));
}

std::string file_label(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash != std::string_view::npos && path.size() > 1) path.remove_prefix(slash + 1);
  return escaped(path, 120);
}

std::unexpected<Error> fail_at(std::string_view kind, std::string_view label, std::uint64_t byte,
                               std::string_view text) {
  return fail(kind, fmt::format("{}: at byte {}: {}", label, byte, text));
}

}  // namespace orrery::storage
