#include "storage/open_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "storage/describe.hpp"
#include "storage/limits.hpp"

namespace orrery::storage {

Result<OpenFile> open_regular(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return fail("E_NOTFOUND", fmt::format("{}: a path cannot hold a NUL", in_quotes(path, 200)));
  }
  // O_NONBLOCK: opening a FIFO for reading would otherwise wait for its writer.
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (fd.get() < 0) return system_error(path, "open", errno);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return system_error(path, "read the size of it", errno);
  if (!S_ISREG(info.st_mode)) {
    return fail("E_NOTFILE",
                fmt::format("{}: is a {}, a regular file is needed", in_quotes(path, 200),
                            S_ISDIR(info.st_mode) ? "folder" : "special file"));
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > kMaxFileBytes) {
    return fail("E_TOOBIG", fmt::format("{}: has {} bytes, at most {} are allowed",
                                        in_quotes(path, 200), size, kMaxFileBytes));
  }
  return OpenFile{std::move(fd), size, info};
}

bool is_same_version(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace orrery::storage
