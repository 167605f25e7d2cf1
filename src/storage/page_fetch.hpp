// Reads a part of a mapped file into memory ahead of its use, first to last.
//
// Each thread asks the kernel for 2 MiB at a time, as a page fault does, so that the page cache is
// filled with huge pages where the file system has them: readahead() would fill it with small ones.
// Several threads keep the disk busy; they sleep nearly all of the time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace orrery::storage {

class PageFetch {
 public:
  // `start` is page aligned and lies at `offset` of the file behind `fd`; both stay as they are
  // until the destructor has run.
  PageFetch(std::byte* start, std::uint64_t bytes, int fd, std::uint64_t offset);
  PageFetch(const PageFetch&) = delete;
  PageFetch& operator=(const PageFetch&) = delete;
  // Waits for the reads that are under way, and no longer.
  ~PageFetch();

  void wait();

 private:
  void work();

  std::byte* start_;
  std::uint64_t bytes_;
  int fd_;
  std::uint64_t offset_;
  std::atomic<std::uint64_t> next_{0};
  std::vector<std::thread> threads_;
};

}  // namespace orrery::storage
