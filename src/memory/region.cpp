#include "memory/region.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

#include "base/checked.hpp"

namespace orrery::memory {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2ULL << 20;

}  // namespace

Result<Region> Region::map(std::uint64_t bytes) {
  Region region;
  if (bytes == 0) return region;
  const std::uint64_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  const CheckedU64 usable = checked_align_up(bytes, kPage);
  const CheckedU64 total = checked_add(usable, checked_add(alignment, 2 * kPage));
  if (!total) return fail("E_MEMORY", fmt::format("a region of {} bytes is too large", bytes));
  void* mapping =
      mmap(nullptr, *total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return fail("E_MEMORY", fmt::format("the system refuses {} bytes of memory", bytes));
  }
  region.mapping_ = mapping;
  region.mapping_size_ = *total;
  const std::uint64_t start = align_up(reinterpret_cast<std::uint64_t>(mapping) + kPage, alignment);
  region.data_ = reinterpret_cast<std::byte*>(start);
  region.size_ = bytes;
  if (mprotect(region.data_, *usable, PROT_READ | PROT_WRITE) != 0) {
    return fail("E_MEMORY", fmt::format("the system refuses {} bytes of memory", bytes));
  }
  madvise(region.data_, *usable, MADV_HUGEPAGE);
  return region;
}

Region::Region(Region&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_size_(std::exchange(other.mapping_size_, 0)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_size_, other.mapping_size_);
  return *this;
}

Region::~Region() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_size_);
}

}  // namespace orrery::memory
