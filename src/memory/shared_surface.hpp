// Memory that is filled once and then only read: by all who name it in this process, and where it
// can be sealed by all processes of the user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "memory/share.hpp"
#include "memory/surface.hpp"

namespace orrery::memory {

class SharedSurface {
 public:
  // Whoever names the same bytes gets the same memory while anybody has it. The name must change
  // with the contents. An empty one is nobody else's. E_MEMORY.
  static Result<std::shared_ptr<SharedSurface>> open(const std::string& name, std::uint64_t bytes);
  SharedSurface(Surface surface, std::string name)
      : name_(std::move(name)), surface_(std::move(surface)) {}

  // The addresses stay from open() on; there is nothing before ready().
  std::byte* data() const { return surface_.data(); }
  std::span<const std::byte> bytes() const { return {surface_.data(), surface_.size()}; }

  // Fills it, unless that is done; several threads may ask. `is_right` looks at what another
  // process made. `must_seal`: memory that others could write to is an error. E_SHARE never; those
  // of `fill`, E_MEMORY, E_BUSY and E_SEAL of Surface::seal().
  Status ready(const std::function<Status()>& fill, const std::function<bool()>& is_right,
               bool must_seal);
  // After ready(): "sealed memory file, huge pages" or "shared with process 123".
  const std::string& how() const { return how_; }
  // Before ready(): another user of this process has filled it, or another process owns the name.
  // Until ready() this one does not claim it, so nobody waits for what may never be made.
  bool is_made();

 private:
  bool take_from_other(const std::function<bool()>& is_right);

  std::mutex mutex_;
  bool is_ready_ = false;
  std::string name_;
  Surface surface_;
  std::optional<Share> share_;  // ends before the file does
  std::string how_;
};

}  // namespace orrery::memory
