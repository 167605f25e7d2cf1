#include "memory/region.hpp"

#include <sys/mman.h>

#include <utility>

#include "base/check.hpp"
#include "base/checked.hpp"
#include "memory/arena.hpp"

namespace orrery::memory {
namespace {

#ifdef MADV_DONTNEED_LOCKED
constexpr int kDiscardLocked = MADV_DONTNEED_LOCKED;
#else
constexpr int kDiscardLocked = 24;
#endif

}  // namespace

Result<Region> Region::map(std::uint64_t bytes) {
  return Arena::process().take(bytes);
}

Region::Region(Region&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Region::~Region() {
  if (data_ != nullptr) arena_->give_back(data_);
}

Status Region::commit(std::uint64_t end) {
  ORRERY_CHECK(end <= size_);
  return arena_->commit(data_, end, Spread::local, false);
}

void Region::discard(std::uint64_t begin, std::uint64_t bytes) {
  ORRERY_CHECK(begin <= size_ && bytes <= size_ - begin);
  const std::uint64_t first = align_up(begin, kSmallPage);
  const std::uint64_t end = (begin + bytes) / kSmallPage * kSmallPage;
  if (end <= first) return;
  // Pages that are pinned stay with the first call.
  if (arena_->calls().advise(data_ + first, end - first, MADV_DONTNEED) == 0) return;
  arena_->calls().advise(data_ + first, end - first, kDiscardLocked);
}

bool Region::renew(std::uint64_t begin, std::uint64_t bytes) {
  ORRERY_CHECK(begin <= size_ && bytes <= size_ - begin);
  return arena_->calls().map(data_ + begin, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1) != MAP_FAILED;
}

}  // namespace orrery::memory
