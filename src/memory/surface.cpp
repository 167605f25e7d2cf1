#include "memory/surface.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.hpp"

namespace orrery::memory {
namespace {

#ifdef MADV_COLLAPSE
constexpr int kCollapse = MADV_COLLAPSE;
#else
constexpr int kCollapse = 25;  // Linux 6.1
#endif
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

}  // namespace

Result<Surface> Surface::reserve(Arena& arena, std::uint64_t bytes) {
  ORRERY_TRY(Region region, arena.reserve(bytes));
  return Surface(std::move(region));
}

// Files of the pool consist of whole huge pages.
std::uint64_t Surface::mapped_bytes() const {
  return align_up(size(), is_pool_ ? kHugePage : kSmallPage);
}

bool Surface::map_file(int fd, int protection) {
  return arena().calls().map(data(), mapped_bytes(), protection, MAP_SHARED, fd) != MAP_FAILED;
}

void Surface::clear() {
  arena().calls().map(data(), mapped_bytes(), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

bool Surface::make_file(bool from_pool) {
  is_pool_ = from_pool;
  Descriptor file(arena().calls().memory_file("orrery", from_pool));
  const bool made = file.get() >= 0 && arena().calls().resize(file.get(), mapped_bytes()) == 0 &&
                    map_file(file.get(), PROT_READ | PROT_WRITE);
  if (!made) {
    what_ = fmt::format("private memory: memory files are refused ({})", std::strerror(errno));
    is_pool_ = false;
    return false;
  }
  file_ = std::move(file);
  return true;
}

// A memory file has small pages unless the administrator says otherwise for all of them, but the
// kernel makes huge ones of it where it is told to. One byte in each is enough.
bool Surface::collapse() {
  SystemCalls& calls = arena().calls();
  const std::uint64_t whole = size() / kHugePage * kHugePage;
  if (whole == 0 || calls.advise(data(), whole, MADV_HUGEPAGE) != 0) return false;
  for (std::uint64_t at = 0; at < whole; at += kHugePage) {
    *static_cast<volatile std::byte*>(data() + at) = std::byte{0};
    if (calls.advise(data() + at, kHugePage, kCollapse) != 0) return false;
  }
  return true;
}

Status Surface::make() {
  is_sealed_ = false;
  const bool has_pool =
      size() >= kHugePage && arena().calls().free_huge_pool() >= align_up(size(), kHugePage);
  if ((has_pool && make_file(true)) || make_file(false)) {
    arena().note_shared(data(), mapped_bytes(), Spread::interleaved);
    what_ = is_pool_     ? "memory file, huge pages of the pool"
            : collapse() ? "memory file, huge pages"
                         : "memory file, small pages";
    return {};
  }
  return arena().commit(data(), size(), Spread::interleaved, true);
}

Status Surface::adopt(Descriptor file) {
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  struct stat info{};
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(file.get(), &info) != 0) {
    return fail("E_SEAL", "the shared memory file is not sealed");
  }
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  is_pool_ = static_cast<std::uint64_t>(info.st_blksize) >= kHugePage &&
             bytes == align_up(size(), kHugePage);
  if (bytes != mapped_bytes()) {
    is_pool_ = false;
    return fail("E_SEAL",
                fmt::format("the shared memory file has {} bytes, not {}", bytes, size()));
  }
  if (!map_file(file.get(), PROT_READ)) {
    clear();
    return fail("E_SEAL",
                fmt::format("the shared memory file cannot be mapped: {}", std::strerror(errno)));
  }
  if (!is_pool_) arena().calls().advise(data(), mapped_bytes(), MADV_HUGEPAGE);
  file_ = std::move(file);
  is_sealed_ = true;
  what_ = "sealed memory file";
  arena().note_shared(data(), mapped_bytes(), Spread::local);
  return {};
}

// No map that could be written to may be there when it is sealed, so it goes for a moment.
Status Surface::seal() {
  if (is_sealed_) return {};
  SystemCalls& calls = arena().calls();
  if (file_.get() < 0) {
    calls.protect(data(), mapped_bytes(), PROT_READ);
    return {};
  }
  arena().forget_memory(data());
  clear();
  const int code = calls.add_seals(file_.get(), kSeals) == 0 ? 0 : errno;
  if (!map_file(file_.get(), code == 0 ? PROT_READ : PROT_READ | PROT_WRITE)) {
    return fail("E_MEMORY",
                fmt::format("a memory file cannot be mapped again: {}", std::strerror(errno)));
  }
  if (!is_pool_) calls.advise(data(), mapped_bytes(), MADV_HUGEPAGE);
  arena().note_shared(data(), mapped_bytes(), Spread::local);
  if (code != 0) {
    return fail(code == EBUSY ? "E_BUSY" : "E_SEAL",
                fmt::format("the weights cannot be sealed: {}",
                            code == EBUSY ? "somebody can still write to them, such as a transfer "
                                            "that is under way"
                                          : std::strerror(code)));
  }
  is_sealed_ = true;
  what_ = "sealed " + what_;
  return {};
}

}  // namespace orrery::memory
