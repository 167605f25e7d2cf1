#include "engine/session_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "storage/io.hpp"
#include "storage/state_file.hpp"

namespace orrery::engine {
namespace {

constexpr std::string_view kTemporary = ".tmp";  // of a file that is not whole yet

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

}  // namespace

bool is_session_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostSessionName && name[0] != '.' &&
         std::ranges::all_of(name, is_name_byte) && !name.ends_with(kTemporary);
}

SessionFolder::SessionFolder(std::string path) : path_(std::move(path)) {
  const auto names = storage::system_io().list(path_);
  if (!names) return;
  for (const std::string& name : *names) {
    if (!name.ends_with(kTemporary)) continue;
    static_cast<void>(storage::system_state_io().remove(path_ + "/" + name));
  }
}

Status SessionFolder::check() const {
  const std::string path = fmt::format("{}/check{}", path_, kTemporary);
  ORRERY_TRY(const auto file, storage::system_state_io().create(path, false));
  constexpr std::array<std::byte, 4096> kBlock{};
  return storage::write_at(*file, 0, kBlock);
}

Result<std::unique_ptr<SessionFile>> SessionFolder::open(std::string_view owner,
                                                         const std::string& name,
                                                         const Model& model) const {
  if (!is_session_name(name)) {
    return fail("E_NAME", fmt::format("a session's name has 1 to {} letters, digits, - _ and . , "
                                      "begins with another than . and does not end in {}",
                                      kMostSessionName, kTemporary));
  }
  const std::string path =
      owner.empty() ? path_ + "/" + name : fmt::format("{}/{}.{}", path_, owner, name);
  return SessionFile::open(storage::system_state_io(), path,
                           kv_identity(*model.executor(), &model.checkpoint()));
}

}  // namespace orrery::engine
