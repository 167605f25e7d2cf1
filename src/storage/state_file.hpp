// Files that are changed in place and outlive any crash: what engine/kv_file.hpp is built on. Apart
// from Io, which changes no file that has a name. Each call is one of the system's, so that tests
// can let every one of them fail, be interrupted or do less than asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"

namespace orrery::storage {

// Open and locked: no other StateFile, of whatever process, is the same file.
class StateFile {
 public:
  virtual ~StateFile() = default;  // lets go of the lock; a file that took no name is gone
  virtual Result<std::uint64_t> size() const = 0;
  // How many bytes were read or written from `offset` on: fewer than asked for where the system
  // likes, 0 at the end of the file. E_INTERRUPTED: none, and to be called again.
  virtual Result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> bytes) const = 0;
  virtual Result<std::size_t> write_some(std::uint64_t offset,
                                         std::span<const std::byte> bytes) = 0;
  virtual Status resize(std::uint64_t bytes) = 0;
  // Waits until all that was written is on the disk.
  virtual Status sync() = 0;
  // False once another file, or none, has its path.
  virtual bool has_name() const = 0;
  // Of a created file, once: syncs it and takes its path; E_EXISTS as StateIo::create says.
  virtual Status take_name() = 0;
  // Puts a private copy-on-write view of the bytes over [address, address + bytes). All three are
  // multiples of the system's page; the bytes lie within the file.
  virtual Status map_over(std::byte* address, std::uint64_t offset, std::uint64_t bytes) const = 0;
};

// All of the bytes; E_TRUNC where the file ends before.
Status read_at(const StateFile& file, std::uint64_t offset, std::span<std::byte> bytes);
Status write_at(StateFile& file, std::uint64_t offset, std::span<const std::byte> bytes);

class StateIo {
 public:
  virtual ~StateIo() = default;
  // E_NOTFOUND; E_NOTFILE for links, folders and special files; E_BUSY while it is open elsewhere.
  virtual Result<std::unique_ptr<StateFile>> open(const std::string& path) = 0;
  // An empty file, readable for its owner alone, without a name until take_name(), which then
  // replaces what is at `path` or refuses to. Makes the folder of `path`.
  virtual Result<std::unique_ptr<StateFile>> create(const std::string& path, bool replaces) = 0;
  // The errors of open(): nothing that is in use is removed.
  virtual Status remove(const std::string& path) = 0;
};

// The real file system.
StateIo& system_state_io();

}  // namespace orrery::storage
