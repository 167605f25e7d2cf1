// A mapped file of the real file system.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/checked.hpp"
#include "memory/bus_guard.hpp"
#include "memory/huge_pages.hpp"
#include "storage/limits.hpp"
#include "storage/open_file.hpp"
#include "storage/page_fetch.hpp"

namespace orrery::storage {
namespace {

constexpr std::uint64_t kHugePage = 2 * kMiB;
constexpr std::uint64_t kSmallPage = 4096;

class SystemMapping final : public MappedFile {
 public:
  SystemMapping(std::byte* start, std::string path, OpenFile file)
      : start_(start), size_(file.size), path_(std::move(path)), file_(std::move(file)) {
    if (size_ != 0) guard_.emplace(start_, size_);
  }
  SystemMapping(const SystemMapping&) = delete;
  SystemMapping& operator=(const SystemMapping&) = delete;
  ~SystemMapping() override {
    fetch_.reset();
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
    if (now.st_dev != file_.info.st_dev || now.st_ino != file_.info.st_ino) return true;
    return is_same_version(now, file_.info);
  }

  PageUse page_use() const override;
  void fetch(std::span<const std::byte> part) const override {
    const std::uint64_t first = offset_of(part) / kSmallPage * kSmallPage;
    fetch_.reset();
    if (part.empty()) return;
    fetch_.emplace(start_ + first, offset_of(part) + part.size() - first, file_.fd.get(), first);
  }
  void wait_fetched() const override {
    if (fetch_) fetch_->wait();
  }
  void drop_cached(std::span<const std::byte> part) const override {
    fetch_.reset();
    release(part);
    ::posix_fadvise(file_.fd.get(), static_cast<off_t>(offset_of(part)),
                    static_cast<off_t>(part.size()), POSIX_FADV_DONTNEED);
  }

 private:
  std::byte* start_;
  std::uint64_t size_;
  std::uint64_t offset_of(std::span<const std::byte> part) const {
    return static_cast<std::uint64_t>(part.data() - start_);
  }

  std::string path_;
  OpenFile file_;  // as it was when it was mapped
  std::optional<memory::BusGuard> guard_;
  mutable std::optional<PageFetch> fetch_;
};

PageUse SystemMapping::page_use() const {
  PageUse use{.bytes = size_};
  // The kernel tells others that all pages are cached: then nothing is known.
  if (::geteuid() != file_.info.st_uid && ::access(path_.c_str(), W_OK) != 0) return use;
  // A look at a cached page maps it, and all of the large page that it is in.
  for (std::uint64_t at = 0; at < size_; at += kHugePage) {
    const std::uint64_t bytes = std::min(kHugePage, size_ - at);
    std::byte* page = start_ + at + bytes / 2 / kSmallPage * kSmallPage;
    unsigned char is_cached = 0;
    if (::mincore(page, kSmallPage, &is_cached) != 0 || (is_cached & 1U) == 0) continue;
    use.cached += bytes;
    static_cast<void>(*static_cast<const volatile std::byte*>(page));
  }
  use.huge = std::min(use.cached, memory::huge_mapped({start_, size_}));
  return use;
}

// Maps at an address that is congruent to the file offset modulo 2 MiB, which huge pages need: a
// larger range is reserved first and what is not used of it is given back.
Result<std::unique_ptr<MappedFile>> map_congruent(const std::string& path, OpenFile file) {
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
  return std::make_unique<SystemMapping>(target, path, std::move(file));
}

}  // namespace

Result<std::unique_ptr<MappedFile>> map_system_file(const std::string& path) {
  ORRERY_TRY(OpenFile file, open_regular(path));
  if (file.size == 0) return std::make_unique<SystemMapping>(nullptr, path, std::move(file));
  return map_congruent(path, std::move(file));
}

}  // namespace orrery::storage
