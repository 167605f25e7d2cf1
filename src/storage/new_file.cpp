#include "storage/new_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "storage/loaded_checkpoint.hpp"
#include "storage/system_error.hpp"

namespace orrery::storage {
namespace {

// Beside `path`, and of nobody else.
std::string temporary_name(const std::string& path) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}-{}.tmp", path, ::getpid(), count++);
}

class SystemNewFile final : public NewFile {
 public:
  // `temporary` is empty for a file without a name.
  SystemNewFile(Descriptor fd, std::string path, std::string temporary)
      : fd_(std::move(fd)), path_(std::move(path)), temporary_(std::move(temporary)) {}
  ~SystemNewFile() override {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n >= 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
      if (n < 0 && errno != EINTR) return system_error(path_, "write", errno);
    }
    return {};
  }

  Status finish() override {
    if (::fsync(fd_.get()) != 0) return system_error(path_, "write", errno);
    if (temporary_.empty()) {
      const std::string link = temporary_name(path_);
      const std::string source = fmt::format("/proc/self/fd/{}", fd_.get());
      if (::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, link.c_str(), AT_SYMLINK_FOLLOW) != 0) {
        return system_error(path_, "name the file", errno);
      }
      temporary_ = link;
    }
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      return system_error(path_, "write", errno);
    }
    temporary_.clear();
    sync_folder();
    return {};
  }

 private:
  // The new name survives a power cut, too, where the file system can promise it.
  void sync_folder() const {
    const Descriptor folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() >= 0) static_cast<void>(::fsync(folder.get()));
  }

  Descriptor fd_;
  std::string path_, temporary_;
};

}  // namespace

Result<std::unique_ptr<NewFile>> create_system_file(const std::string& path) {
  constexpr mode_t kMode = 0644;
  Descriptor nameless(::open(folder_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode));
  // Without /proc a nameless file could not get its name.
  if (nameless.get() >= 0 && ::access("/proc/self/fd", X_OK) == 0) {
    return std::make_unique<SystemNewFile>(std::move(nameless), path, "");
  }
  const std::string temporary = temporary_name(path);
  Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (fd.get() < 0) return system_error(path, "write", errno);
  return std::make_unique<SystemNewFile>(std::move(fd), path, temporary);
}

}  // namespace orrery::storage
