// A new file that has no name until it is whole: even a killed process leaves nothing behind. Where
// the file system has no such files, it has a temporary name beside the one that it will take.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.hpp"
#include "storage/system_error.hpp"

namespace orrery::storage {

class UnnamedFile {
 public:
  // In the folder of `path`, open for reading and writing.
  static Result<UnnamedFile> open(const std::string& path, mode_t mode);
  UnnamedFile(UnnamedFile&& other) noexcept;
  UnnamedFile& operator=(UnnamedFile&&) = delete;
  ~UnnamedFile();  // removes the temporary name

  int fd() const { return fd_.get(); }
  // Its bytes are synced; then it takes `path`, and the folder is synced. Unless it replaces, a
  // file that is there already stays: E_EXISTS.
  Status take_name(bool replaces);

 private:
  UnnamedFile(Descriptor fd, std::string path, std::string temporary)
      : fd_(std::move(fd)), path_(std::move(path)), temporary_(std::move(temporary)) {}

  Descriptor fd_;
  std::string path_, temporary_;  // temporary_ is empty for a file without a name
};

}  // namespace orrery::storage
