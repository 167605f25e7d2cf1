#include "storage/state_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "storage/describe.hpp"
#include "storage/loaded_checkpoint.hpp"
#include "storage/system_error.hpp"
#include "storage/unnamed_file.hpp"

namespace orrery::storage {
namespace {

constexpr mode_t kOwnerOnly = 0600;
constexpr int kMostInterruptions = 1000;  // in a row
constexpr int kMostReplacements = 16;     // of the file while it is being opened

// False while somebody else has it. File systems without locks have one user each.
bool lock(int fd) {
  return ::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

bool is_named(int fd, const std::string& path) {
  struct stat mine{}, named{};
  return ::fstat(fd, &mine) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

class SystemStateFile final : public StateFile {
 public:
  SystemStateFile(Descriptor fd, std::string path)
      : opened_(std::move(fd)), path_(std::move(path)) {}
  SystemStateFile(UnnamedFile file, std::string path, bool replaces)
      : created_(std::move(file)), path_(std::move(path)), replaces_(replaces) {}
  // Pages that are mapped keep the lock when the descriptor is closed.
  ~SystemStateFile() override { ::flock(fd(), LOCK_UN); }

  Result<std::uint64_t> size() const override {
    struct stat info{};
    if (::fstat(fd(), &info) != 0) return system_error(path_, "read the size of it", errno);
    return static_cast<std::uint64_t>(info.st_size);
  }

  Result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> bytes) const override {
    return transferred(::pread(fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
                       "read");
  }

  Result<std::size_t> write_some(std::uint64_t offset, std::span<const std::byte> bytes) override {
    return transferred(::pwrite(fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
                       "write");
  }

  Status resize(std::uint64_t bytes) override {
    if (::ftruncate(fd(), static_cast<off_t>(bytes)) != 0) {
      return system_error(path_, "change the size of it", errno);
    }
    return {};
  }

  Status sync() override {
    if (::fdatasync(fd()) != 0) return system_error(path_, "write", errno);
    return {};
  }

  bool has_name() const override { return is_named(fd(), path_); }

  Status take_name() override { return created_->take_name(replaces_); }

  Status map_over(std::byte* address, std::uint64_t offset, std::uint64_t bytes) const override {
    if (::mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
               fd(), static_cast<off_t>(offset)) == MAP_FAILED) {
      return system_error(path_, "map", errno);
    }
    return {};
  }

 private:
  int fd() const { return created_ ? created_->fd() : opened_->get(); }

  Result<std::size_t> transferred(ssize_t n, std::string_view action) const {
    if (n >= 0) return static_cast<std::size_t>(n);
    const int code = errno;
    if (code == EINTR) return fail("E_INTERRUPTED", "interrupted");
    return system_error(path_, action, code);
  }

  std::optional<Descriptor> opened_;
  std::optional<UnnamedFile> created_;
  std::string path_;
  bool replaces_ = false;
};

class SystemStateIo final : public StateIo {
 public:
  Result<std::unique_ptr<StateFile>> open(const std::string& path) override {
    for (int i = 0; i < kMostReplacements; ++i) {
      Descriptor fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
      if (fd.get() < 0 && errno == ELOOP) return not_a_file(path);
      if (fd.get() < 0) return system_error(path, "open", errno);
      struct stat info{};
      if (::fstat(fd.get(), &info) != 0) return system_error(path, "open", errno);
      if (!S_ISREG(info.st_mode)) return not_a_file(path);
      if (!lock(fd.get())) break;
      // Replaced between the two calls: what is locked is the file that was.
      if (is_named(fd.get(), path)) return std::make_unique<SystemStateFile>(std::move(fd), path);
    }
    return fail("E_BUSY", fmt::format("{}: is in use by another conversation or process",
                                      in_quotes(path, 200)));
  }

  Result<std::unique_ptr<StateFile>> create(const std::string& path, bool replaces) override {
    std::error_code failed;
    const std::filesystem::path folder = folder_of(path);
    if (std::filesystem::create_directories(folder, failed)) {
      std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
    }
    if (failed) return system_error(path, "make the folder of it", failed.value());
    ORRERY_TRY(UnnamedFile file, UnnamedFile::open(path, kOwnerOnly));
    lock(file.fd());
    return std::make_unique<SystemStateFile>(std::move(file), path, replaces);
  }

  Status remove(const std::string& path) override {
    ORRERY_TRY(const auto file, open(path));
    if (::unlink(path.c_str()) != 0) return system_error(path, "remove", errno);
    return {};
  }

 private:
  static std::unexpected<Error> not_a_file(const std::string& path) {
    return fail("E_NOTFILE", fmt::format("{}: is a link, a folder or a special file; a regular "
                                         "file is needed",
                                         in_quotes(path, 200)));
  }
};

// `transfer(done)` moves some of the bytes from `done` on.
template <class Transfer>
Status move_all(std::size_t n, const Transfer& transfer) {
  int interruptions = 0;
  for (std::size_t done = 0; done < n;) {
    const Result<std::size_t> moved = transfer(done);
    if (!moved && moved.error().kind == "E_INTERRUPTED" && interruptions < kMostInterruptions) {
      ++interruptions;
      continue;
    }
    if (!moved) return std::unexpected(moved.error());
    if (*moved == 0) return fail("E_TRUNC", "the file ends too early");
    interruptions = 0;
    done += *moved;
  }
  return {};
}

}  // namespace

Status read_at(const StateFile& file, std::uint64_t offset, std::span<std::byte> bytes) {
  return move_all(bytes.size(), [&](std::size_t done) {
    return file.read_some(offset + done, bytes.subspan(done));
  });
}

Status write_at(StateFile& file, std::uint64_t offset, std::span<const std::byte> bytes) {
  return move_all(bytes.size(), [&](std::size_t done) {
    return file.write_some(offset + done, bytes.subspan(done));
  });
}

StateIo& system_state_io() {
  static SystemStateIo io;
  return io;
}

}  // namespace orrery::storage
