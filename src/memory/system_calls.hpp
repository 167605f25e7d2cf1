// The calls by which memory is taken, so that tests can refuse them one by one.
#pragma once

#include <cstdint>
#include <string>

namespace orrery::memory {

class SystemCalls {
 public:
  virtual ~SystemCalls() = default;
  // As mmap, munmap, mprotect and madvise.
  virtual void* map(void* at, std::uint64_t bytes, int protection, int flags, int fd);
  virtual int unmap(void* at, std::uint64_t bytes);
  virtual int protect(void* at, std::uint64_t bytes, int protection);
  virtual int advise(void* at, std::uint64_t bytes, int advice);
  // Keeps pages in memory from their first use on (mlock2; mlock where a kernel has no other).
  virtual int lock(void* at, std::uint64_t bytes);
  // mbind(MPOL_INTERLEAVE) over the nodes whose bits are set.
  virtual int interleave(void* at, std::uint64_t bytes, std::uint64_t nodes);
  // A nameless file in memory that can be sealed; `huge_pool`: of the pool of huge pages.
  virtual int memory_file(const char* label, bool huge_pool);
  virtual int resize(int fd, std::uint64_t bytes);
  virtual int add_seals(int fd, int seals);

  virtual std::uint64_t address_limit();   // RLIMIT_AS; UINT64_MAX: none
  virtual std::uint64_t lock_limit();      // RLIMIT_MEMLOCK
  virtual std::uint64_t free_huge_pool();  // bytes of the pool of 2 MiB pages that nobody has
  // A line of a file below /sys, empty where it is not.
  virtual std::string line_of(const char* path);
};

// Those of the system that the program runs on.
SystemCalls& system_calls();

}  // namespace orrery::memory
