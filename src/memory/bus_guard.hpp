// Mapped files that shrink, or whose disk fails, while somebody reads them.
//
// Reading such a page raises SIGBUS, which would end the process. In a guarded range the handler
// puts zeros in the place of what is gone and marks the guard instead; whoever reads asks the guard
// afterwards whether what it read was true. A SIGBUS anywhere else goes to the handler that stood
// there before.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace orrery::memory {

class BusGuard {
 public:
  // Guards at once in a process: the shards of a few of the largest models.
  static constexpr std::size_t kMost = 4096;

  // Takes a free place for whole pages [start, start + bytes) mapped from a file; guards nothing
  // when there is none left. The first guard of the process installs the handler.
  BusGuard(const std::byte* start, std::uint64_t bytes) : BusGuard(start, bytes, 0) {}
  // The same for parts of so many bytes, of whole pages, that are mapped each for itself and
  // written to: a lost byte turns the part that it was in, not all from there on, into zeros.
  BusGuard(const std::byte* start, std::uint64_t bytes, std::uint64_t part);
  BusGuard(const BusGuard&) = delete;
  BusGuard& operator=(const BusGuard&) = delete;
  // Before the range is unmapped, and when nobody reads it any more.
  ~BusGuard();

  bool is_active() const { return place_ < kMost; }
  // Whether bytes of the range were lost; they read as zeros since then.
  bool was_hit() const;
  // Forgets a hit: what was lost has been thrown away.
  void forget_hit();

  // How often any guard of the process was hit: one relaxed load tells that none was since the last
  // look. A thread that was joined or waited for after its reads has counted its own.
  static std::uint32_t hits();

 private:
  std::size_t place_ = kMost;
};

}  // namespace orrery::memory
