#include "storage/page_fetch.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/checked.hpp"
#include "storage/limits.hpp"

namespace orrery::storage {
namespace {

// What disks of machines that rent by the core need to reach their rate (docs/memory.md).
constexpr std::uint64_t kThreads = 8;
constexpr std::uint64_t kPiece = 2 * kMiB;
constexpr std::uint64_t kSmallPage = 4096;

}  // namespace

PageFetch::PageFetch(std::byte* start, std::uint64_t bytes, int fd, std::uint64_t offset)
    : start_(start), bytes_(bytes), fd_(fd), offset_(offset) {
  const std::uint64_t pieces = (bytes + kPiece - 1) / kPiece;
  for (std::uint64_t i = 0; i < std::min(kThreads, pieces); ++i) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      break;  // fewer do it too, and without any the pages are read when they are used
    }
  }
}

PageFetch::~PageFetch() {
  next_.store(bytes_);
  wait();
}

void PageFetch::wait() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void PageFetch::work() {
  for (std::uint64_t at = next_.fetch_add(kPiece); at < bytes_; at = next_.fetch_add(kPiece)) {
    const std::uint64_t piece = std::min(kPiece, bytes_ - at);
#ifdef MADV_POPULATE_READ
    // Not by touching: where the file was cut this is an error, not a signal.
    if (::madvise(start_ + at, align_up(piece, kSmallPage), MADV_POPULATE_READ) == 0) continue;
    if (errno != EINVAL) return;
#endif
    ::posix_fadvise(fd_, static_cast<off_t>(offset_ + at), static_cast<off_t>(piece),
                    POSIX_FADV_WILLNEED);
  }
}

}  // namespace orrery::storage
