#include "memory/system_calls.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace orrery::memory {
namespace {

constexpr int kInterleave = 3;  // MPOL_INTERLEAVE of <numaif.h>, which is libnuma's

std::uint64_t limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return UINT64_MAX;
  return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

std::uint64_t number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : 0;
}

}  // namespace

void* SystemCalls::map(void* at, std::uint64_t bytes, int protection, int flags, int fd) {
  return ::mmap(at, bytes, protection, flags | (at != nullptr ? MAP_FIXED : 0), fd, 0);
}

int SystemCalls::unmap(void* at, std::uint64_t bytes) {
  return ::munmap(at, bytes);
}

int SystemCalls::protect(void* at, std::uint64_t bytes, int protection) {
  return ::mprotect(at, bytes, protection);
}

int SystemCalls::advise(void* at, std::uint64_t bytes, int advice) {
  return ::madvise(at, bytes, advice);
}

int SystemCalls::lock(void* at, std::uint64_t bytes) {
  const int locked = ::mlock2(at, bytes, MLOCK_ONFAULT);
  return locked != 0 && (errno == ENOSYS || errno == EINVAL) ? ::mlock(at, bytes) : locked;
}

int SystemCalls::interleave(void* at, std::uint64_t bytes, std::uint64_t nodes) {
  return static_cast<int>(
      ::syscall(SYS_mbind, at, bytes, kInterleave, &nodes, 8 * sizeof nodes + 1, 0));
}

int SystemCalls::memory_file(const char* label, bool huge_pool) {
  const unsigned huge = huge_pool ? MFD_HUGETLB : 0;
  return ::memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING | huge);
}

int SystemCalls::resize(int fd, std::uint64_t bytes) {
  return ::ftruncate(fd, static_cast<off_t>(bytes));
}

int SystemCalls::add_seals(int fd, int seals) {
  return ::fcntl(fd, F_ADD_SEALS, seals);
}

std::uint64_t SystemCalls::address_limit() {
  return limit_of(RLIMIT_AS);
}

std::uint64_t SystemCalls::lock_limit() {
  return limit_of(RLIMIT_MEMLOCK);
}

std::uint64_t SystemCalls::free_huge_pool() {
  constexpr const char* kPool = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  const std::uint64_t free = number_in((std::string(kPool) + "free_hugepages").c_str());
  const std::uint64_t promised = number_in((std::string(kPool) + "resv_hugepages").c_str());
  return free > promised ? (free - promised) << 21U : 0;
}

std::string SystemCalls::line_of(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "";
}

SystemCalls& system_calls() {
  static SystemCalls calls;
  return calls;
}

}  // namespace orrery::memory
