// The system's calls, some of which are refused, and what was asked of them.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "memory/arena.hpp"

namespace orrery::memory::test {

class ScriptedCalls : public SystemCalls {
 public:
  bool has_guards = true, has_memory_files = true, can_lock = true, can_protect = true;
  bool has_huge_pages = true;
  int seal_error = 0;
  std::uint64_t pool = 0, addresses = UINT64_MAX, lockable = UINT64_MAX;
  std::string nodes = "0";
  std::uint64_t interleaved = 0;  // the nodes of the last call
  int maps = 0;                   // of the pool
  std::uint64_t locked = 0;

  void* map(void* at, std::uint64_t bytes, int protection, int flags, int fd) override {
    if ((flags & MAP_HUGETLB) != 0) {  // this machine may have no pool: others stand for it
      ++maps;
      flags &= ~MAP_HUGETLB;
    }
    return SystemCalls::map(at, bytes, protection, flags, fd);
  }
  int protect(void* at, std::uint64_t bytes, int protection) override {
    if (!can_protect) return errno = ENOMEM, -1;
    return SystemCalls::protect(at, bytes, protection);
  }
  int advise(void* at, std::uint64_t bytes, int advice) override {
    constexpr int kGuardInstall = 102;
    if (advice == kGuardInstall && !has_guards) return errno = EINVAL, -1;
    if (advice == MADV_HUGEPAGE && !has_huge_pages) return errno = EINVAL, -1;
    return SystemCalls::advise(at, bytes, advice);
  }
  int lock(void*, std::uint64_t bytes) override {
    if (!can_lock) return errno = ENOMEM, -1;
    locked += bytes;
    return 0;
  }
  int interleave(void*, std::uint64_t, std::uint64_t mask) override {
    interleaved = mask;
    return 0;
  }
  int memory_file(const char* label, bool) override {
    if (!has_memory_files) return errno = EPERM, -1;
    return SystemCalls::memory_file(label, false);
  }
  int add_seals(int fd, int seals) override {
    if (seal_error != 0) return errno = seal_error, -1;
    return SystemCalls::add_seals(fd, seals);
  }
  std::uint64_t address_limit() override { return addresses; }
  std::uint64_t lock_limit() override { return lockable; }
  std::uint64_t free_huge_pool() override { return pool; }
  std::string line_of(const char* path) override {
    const std::string name = path;
    if (name.ends_with("has_memory")) return nodes;
    return has_huge_pages ? "always [madvise] never" : "always madvise [never]";
  }
};

inline bool has_note(const Notes& notes, const std::string& part) {
  for (const std::string& note : notes) {
    if (note.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace orrery::memory::test
