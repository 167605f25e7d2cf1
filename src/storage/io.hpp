// Every file access goes through Io, so that tests can inject faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace orrery::storage {

// A read-only mapping of a whole regular file; unmapped by the destructor.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const = 0;
  // Lets go of the whole pages of a part of bytes(), which come back from the file when they are
  // read again.
  virtual void release(std::span<const std::byte>) const {}
  // False once some of the bytes could not be read, because the file was cut or its disk failed:
  // they read as zeros. A look at memory alone.
  virtual bool is_whole() const { return true; }
  // False also when the file has another size or time of writing than when it was mapped. A file
  // that was replaced by a new one under its name is unchanged. One system call.
  virtual bool is_unchanged() const { return is_whole(); }
};

// A file that is being written. Until finish() its name is not there, or is what it was before.
class NewFile {
 public:
  virtual ~NewFile() = default;  // what is not finished is removed
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // Waits until the bytes are on the disk, then takes the name. Nothing may follow.
  virtual Status finish() = 0;
};

enum class FileKind { regular, folder, other };

struct FileInfo {
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;  // since 1970
  FileKind kind = FileKind::other;
};

class Io {
 public:
  virtual ~Io() = default;
  // Refuses anything that is not a regular file (E_NOTFILE), never blocks on a FIFO.
  // Maps shared at a 2 MiB-congruent address and advises huge pages; the bytes are not touched.
  virtual Result<std::unique_ptr<MappedFile>> map(const std::string& path) = 0;
  // Reads a whole small file; E_TOOBIG above `limit` bytes.
  virtual Result<std::string> read_file(const std::string& path, std::uint64_t limit) = 0;
  // Follows links; E_NOTFOUND when nothing is there.
  virtual Result<FileInfo> info(const std::string& path) = 0;
  // The names in a folder, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;
  // Writes a small file so that readers see the old or the new text, never a part.
  virtual Status replace_file(const std::string& path, std::string_view text) = 0;
  // Begins a file that will be, or replace, `path`. It has no name at all while it is written where
  // the file system allows that, so that even a killed process leaves nothing behind.
  virtual Result<std::unique_ptr<NewFile>> create(const std::string& path) = 0;

  bool exists(const std::string& path) { return info(path).has_value(); }
  bool is_directory(const std::string& path) {
    const Result<FileInfo> found = info(path);
    return found && found->kind == FileKind::folder;
  }
};

// The real file system.
Io& system_io();

}  // namespace orrery::storage
