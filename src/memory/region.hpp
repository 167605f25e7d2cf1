// A range of anonymous memory with guard pages around it: zeroed, page aligned, huge pages advised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace orrery::memory {

class Region {
 public:
  // E_MEMORY when the system refuses. Zero bytes give an empty region.
  static Result<Region> map(std::uint64_t bytes);
  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;  // first usable byte, 2 MiB aligned for large regions
  std::uint64_t size_ = 0;
  void* mapping_ = nullptr;  // with the guard pages
  std::uint64_t mapping_size_ = 0;
};

}  // namespace orrery::memory
