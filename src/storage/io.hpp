// Every file access goes through Io, so that tests can inject faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"

namespace orrery::storage {

// A read-only mapping of a whole regular file; unmapped by the destructor.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const = 0;
};

class Io {
 public:
  virtual ~Io() = default;
  // Refuses anything that is not a regular file (E_NOTFILE), never blocks on a FIFO.
  // Maps shared at a 2 MiB-congruent address and advises huge pages; the bytes are not touched.
  virtual Result<std::unique_ptr<MappedFile>> map(const std::string& path) = 0;
  // Reads a whole small file; E_TOOBIG above `limit` bytes.
  virtual Result<std::string> read_file(const std::string& path, std::uint64_t limit) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
};

// The real file system.
Io& system_io();

}  // namespace orrery::storage
