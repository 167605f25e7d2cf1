// Memory that other units can open by a descriptor: processes, and devices that take one. On Linux
// it is a memory file (memfd), which can be sealed: then nothing can write to it, cut it or map it
// writable any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "memory/arena.hpp"

namespace orrery::memory {

class Surface {
 public:
  // Addresses of the arena, with nothing in them yet. E_MEMORY.
  static Result<Surface> reserve(Arena& arena, std::uint64_t bytes);

  // Zeroed memory, written to until seal(). Where the system gives no memory files (an old kernel,
  // a sandbox) it is private memory. E_MEMORY.
  Status make();
  // The sealed memory file of another process in the place of what is there. E_SEAL when it is not
  // sealed or has another size: what is there stays.
  Status adopt(Descriptor file);
  // Closes it for writing; the addresses stay. Private memory is only protected. E_BUSY while
  // somebody else may still write, such as an I/O buffer that pins it: it is as it was then.
  Status seal();

  std::byte* data() const { return region_.data(); }
  std::uint64_t size() const { return region_.size(); }
  int file() const { return file_.get(); }  // -1 for private memory
  bool is_sealed() const { return is_sealed_; }
  // "sealed memory file, huge pages"; for private memory, why.
  const std::string& what() const { return what_; }

 private:
  explicit Surface(Region region) : region_(std::move(region)) {}
  Arena& arena() const { return *region_.arena_; }
  std::uint64_t mapped_bytes() const;
  bool make_file(bool from_pool);
  bool map_file(int fd, int protection);
  bool collapse();
  void clear();

  Region region_;
  Descriptor file_;
  bool is_pool_ = false, is_sealed_ = false;
  std::string what_;
};

}  // namespace orrery::memory
