#include "storage/io.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/checked.hpp"
#include "memory/bus_guard.hpp"
#include "storage/describe.hpp"
#include "storage/limits.hpp"
#include "storage/new_file.hpp"
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

constexpr std::uint64_t kHugePage = 2 * kMiB;
constexpr std::uint64_t kSmallPage = 4096;

struct OpenFile {
  Descriptor fd;
  std::uint64_t size;
  struct stat info;
};

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

class SystemMapping final : public MappedFile {
 public:
  SystemMapping(std::byte* start, std::string path, const struct stat& info)
      : start_(start),
        size_(static_cast<std::uint64_t>(info.st_size)),
        path_(std::move(path)),
        info_(info) {
    if (size_ != 0) guard_.emplace(start_, size_);
  }
  SystemMapping(const SystemMapping&) = delete;
  SystemMapping& operator=(const SystemMapping&) = delete;
  ~SystemMapping() override {
    guard_.reset();
    if (size_ != 0) ::munmap(start_, align_up(size_, kSmallPage));
  }
  std::span<const std::byte> bytes() const override { return {start_, size_}; }
  void release(std::span<const std::byte> part) const override {
    const auto first = align_up(reinterpret_cast<std::uintptr_t>(part.data()), kSmallPage);
    const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size());
    if (end < first + kSmallPage) return;
    ::madvise(reinterpret_cast<void*>(first), (end - first) / kSmallPage * kSmallPage,
              MADV_DONTNEED);
  }
  bool is_whole() const override { return !guard_ || !guard_->was_hit(); }
  bool is_unchanged() const override {
    struct stat now{};
    if (!is_whole()) return false;
    if (::stat(path_.c_str(), &now) != 0) return true;  // removed: the mapping keeps the bytes
    if (now.st_dev != info_.st_dev || now.st_ino != info_.st_ino) return true;
    return now.st_size == info_.st_size && now.st_mtim.tv_sec == info_.st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == info_.st_mtim.tv_nsec;
  }

 private:
  std::byte* start_;
  std::uint64_t size_;
  std::string path_;
  struct stat info_;  // when it was mapped
  std::optional<memory::BusGuard> guard_;
};

// Maps at an address that is congruent to the file offset modulo 2 MiB, which huge pages need: a
// larger range is reserved first and what is not used of it is given back.
Result<std::unique_ptr<MappedFile>> map_congruent(const std::string& path, const OpenFile& file) {
  const std::uint64_t size = file.size;
  const std::uint64_t length = align_up(size, kSmallPage);
  const std::uint64_t reserved = length + kHugePage;
  void* area =
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return system_error(path, "reserve address space for", errno);
  const auto begin = reinterpret_cast<std::uintptr_t>(area);
  const std::uintptr_t start = align_up(begin, kHugePage);
  const std::uint64_t head = start - begin;
  const std::uint64_t tail = reserved - head - length;
  auto* target = static_cast<std::byte*>(area) + head;
  if (::mmap(target, size, PROT_READ, MAP_SHARED | MAP_FIXED, file.fd.get(), 0) == MAP_FAILED) {
    const int code = errno;
    ::munmap(area, reserved);
    return system_error(path, "map", code);
  }
  if (head != 0) ::munmap(area, head);
  if (tail != 0) ::munmap(target + length, tail);
  ::madvise(target, length, MADV_HUGEPAGE);  // only advice: not every file system can
  return std::make_unique<SystemMapping>(target, path, file.info);
}

class SystemIo final : public Io {
 public:
  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    ORRERY_TRY(const OpenFile file, open_regular(path));
    if (file.size == 0) return std::make_unique<SystemMapping>(nullptr, path, file.info);
    return map_congruent(path, file);
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
