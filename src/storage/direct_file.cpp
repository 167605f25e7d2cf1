// Io::open_direct on the real file system: the best of the ways that this system allows.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include "storage/open_file.hpp"

namespace orrery::storage {
namespace {

// Some file systems refuse O_DIRECT when a file is opened, others only when it is read.
bool set_direct(const OpenFile& file) {
  const int flags = ::fcntl(file.fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(file.fd.get(), F_SETFL, flags | O_DIRECT) != 0) return false;
  const std::unique_ptr<void, decltype(&std::free)> page(
      std::aligned_alloc(kDirectAlignment, kDirectAlignment), &std::free);
  if (page != nullptr && ::pread(file.fd.get(), page.get(), kDirectAlignment, 0) >= 0) return true;
  ::fcntl(file.fd.get(), F_SETFL, flags);
  return false;
}

}  // namespace

Result<std::unique_ptr<DirectFile>> open_system_direct(const std::string& path,
                                                       std::uint32_t depth) {
  ORRERY_TRY(OpenFile file, open_regular(path));
  const bool is_direct = set_direct(file);
  if (auto uring = make_uring_file(file, is_direct, depth)) return uring;
  return make_threads_file(std::move(file), is_direct, depth);
}

}  // namespace orrery::storage
