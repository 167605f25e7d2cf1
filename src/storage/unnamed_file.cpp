#include "storage/unnamed_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "storage/describe.hpp"
#include "storage/loaded_checkpoint.hpp"

namespace orrery::storage {
namespace {

// Beside `path`, and of nobody else.
std::string temporary_name(const std::string& path) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}-{}.tmp", path, ::getpid(), count++);
}

// The new name survives a power cut, too, where the file system can promise it.
void sync_folder(const std::string& path) {
  const Descriptor folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) static_cast<void>(::fsync(folder.get()));
}

}  // namespace

Result<UnnamedFile> UnnamedFile::open(const std::string& path, mode_t mode) {
  Descriptor nameless(::open(folder_of(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
  // Without /proc a nameless file could not get its name.
  if (nameless.get() >= 0 && ::access("/proc/self/fd", X_OK) == 0) {
    return UnnamedFile(std::move(nameless), path, "");
  }
  const std::string temporary = temporary_name(path);
  Descriptor fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (fd.get() < 0) return system_error(path, "write", errno);
  return UnnamedFile(std::move(fd), path, temporary);
}

UnnamedFile::UnnamedFile(UnnamedFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")) {}

UnnamedFile::~UnnamedFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status UnnamedFile::take_name(bool replaces) {
  if (::fsync(fd_.get()) != 0) return system_error(path_, "write", errno);
  const std::string link = replaces ? temporary_name(path_) : path_;
  const std::string source =
      temporary_.empty() ? fmt::format("/proc/self/fd/{}", fd_.get()) : temporary_;
  if (!replaces || temporary_.empty()) {
    if (replaces) ::unlink(link.c_str());  // of a process that was killed
    if (::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, link.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      if (errno == EEXIST) {
        return fail("E_EXISTS", fmt::format("{}: is there already", in_quotes(path_, 200)));
      }
      return system_error(path_, "name the file", errno);
    }
    if (replaces) temporary_ = link;
  }
  if (replaces) {
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      return system_error(path_, "write", errno);
    }
    temporary_.clear();
  }
  sync_folder(path_);
  return {};
}

}  // namespace orrery::storage
