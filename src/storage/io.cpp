#include "storage/io.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "storage/describe.hpp"
#include "storage/limits.hpp"
#include "storage/new_file.hpp"
#include "storage/open_file.hpp"
#include "storage/system_error.hpp"

namespace orrery::storage {

std::unexpected<Error> system_error(std::string_view path, std::string_view action, int code) {
  std::string_view kind = "E_IO";
  if (code == ENOENT || code == ENOTDIR || code == ENAMETOOLONG) kind = "E_NOTFOUND";
  if (code == EACCES || code == EPERM) kind = "E_PERM";
  if (code == ENXIO || code == ENODEV || code == EISDIR) kind = "E_NOTFILE";
  if (code == ENOSPC || code == EDQUOT) kind = "E_DISKFULL";
  return fail(kind,
              fmt::format("{}: cannot {}: {}", in_quotes(path, 200), action, std::strerror(code)));
}

namespace {

class SystemIo final : public Io {
 public:
  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    return map_system_file(path);
  }

  Result<std::unique_ptr<DirectFile>> open_direct(const std::string& path,
                                                  std::uint32_t depth) override {
    return open_system_direct(path, depth);
  }

  Result<std::string> read_file(const std::string& path, std::uint64_t limit) override {
    ORRERY_TRY(const OpenFile file, open_regular(path));
    if (file.size > limit) {
      return fail("E_TOOBIG", fmt::format("{}: has {} bytes, at most {} are allowed",
                                          in_quotes(path, 200), file.size, limit));
    }
    std::string text(file.size, '\0');
    std::uint64_t got = 0;
    while (got < text.size()) {
      const ssize_t n = ::read(file.fd.get(), text.data() + got, text.size() - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_error(path, "read", errno);
      if (n == 0) break;
      got += static_cast<std::uint64_t>(n);
    }
    text.resize(got);
    return text;
  }

  Result<FileInfo> info(const std::string& path) override {
    struct stat found{};
    if (::stat(path.c_str(), &found) != 0) return system_error(path, "find", errno);
    FileInfo result;
    result.size = static_cast<std::uint64_t>(found.st_size);
    result.modified_ns = std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
    if (S_ISREG(found.st_mode)) result.kind = FileKind::regular;
    if (S_ISDIR(found.st_mode)) result.kind = FileKind::folder;
    return result;
  }

  Result<std::vector<std::string>> list(const std::string& folder) override {
    DIR* directory = ::opendir(folder.c_str());
    if (directory == nullptr) return system_error(folder, "list", errno);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(directory)) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (names.size() == kMaxFolderEntries) break;
      names.emplace_back(name);
    }
    ::closedir(directory);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status replace_file(const std::string& path, std::string_view text) override {
    ORRERY_TRY(const auto file, create_system_file(path));
    ORRERY_TRY_VOID(file->append(std::as_bytes(std::span(text))));
    return file->finish();
  }

  Result<std::unique_ptr<NewFile>> create(const std::string& path) override {
    return create_system_file(path);
  }
};

}  // namespace

Io& system_io() {
  static SystemIo io;
  return io;
}

}  // namespace orrery::storage
