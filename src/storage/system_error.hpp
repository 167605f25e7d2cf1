// What the system refused, and the descriptors that it gave: shared by the files of SystemIo.
#pragma once

#include <unistd.h>

#include <string_view>
#include <utility>

#include "base/result.hpp"

namespace orrery::storage {

// `code` is an errno; `action` completes "cannot ...".
std::unexpected<Error> system_error(std::string_view path, std::string_view action, int code);

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace orrery::storage
