// Regular files as SystemIo opens them, and the ways that it reads them.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "storage/io.hpp"
#include "storage/system_error.hpp"

namespace orrery::storage {

struct OpenFile {
  Descriptor fd;
  std::uint64_t size;
  struct stat info;
};

// For reading. E_NOTFOUND, E_PERM, E_NOTFILE for what is no regular file, E_TOOBIG, E_IO.
Result<OpenFile> open_regular(const std::string& path);

// Same size and time of writing.
bool is_same_version(const struct stat& a, const struct stat& b);

// Io::map and Io::open_direct on the real file system.
Result<std::unique_ptr<MappedFile>> map_system_file(const std::string& path);
Result<std::unique_ptr<DirectFile>> open_system_direct(const std::string& path,
                                                       std::uint32_t depth);

// Takes the file where the system has io_uring for us; else null, and the file stays the caller's.
std::unique_ptr<DirectFile> make_uring_file(OpenFile& file, bool is_direct, std::uint32_t depth);
// By `depth` threads that each read with pread; E_IO when not even one thread is to be had.
Result<std::unique_ptr<DirectFile>> make_threads_file(OpenFile file, bool is_direct,
                                                      std::uint32_t depth);

}  // namespace orrery::storage
