// A part of the arena: page aligned, with guard pages around it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace orrery::memory {

class Arena;

// Over the memory nodes of the machine. local: where it is first touched; interleaved: page by page
// over all, for what every processor reads.
enum class Spread : std::uint8_t { local, interleaved };

class Region {
 public:
  // Of the process's arena: zeroed memory. E_MEMORY when the system refuses. Zero bytes give an
  // empty region.
  static Result<Region> map(std::uint64_t bytes);
  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  std::byte* data() const { return data_; }  // first byte, 2 MiB aligned for large regions
  std::uint64_t size() const { return size_; }

  // Of a region that was only reserved: its first `end` bytes become usable, zeroed memory of
  // small pages. E_MEMORY.
  Status commit(std::uint64_t end);
  // Gives the memory of the whole pages in a usable part back to the system; it reads as zeros
  // then.
  void discard(std::uint64_t begin, std::uint64_t bytes);
  // Puts zeroed memory in the place of a file that was mapped to a usable part, of whole pages.
  // False when the system refuses.
  bool renew(std::uint64_t begin, std::uint64_t bytes);

 private:
  friend class Arena;
  friend class Surface;
  Region(Arena& arena, std::byte* data, std::uint64_t size)
      : arena_(&arena), data_(data), size_(size) {}

  Arena* arena_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace orrery::memory
