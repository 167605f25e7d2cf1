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

// Where the bytes of a mapped file are; looked at in one place of each 2 MiB, so multiples of that.
struct PageUse {
  std::uint64_t bytes = 0;   // of the file
  std::uint64_t cached = 0;  // in the page cache; 0 when the system does not tell
  std::uint64_t huge = 0;    // of those, in pages of 2 MiB
};

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

  // Reads nothing from the disk. All 0 where the bytes are no pages of a file.
  virtual PageUse page_use() const { return {}; }
  // Begins to read what of a part is not in memory, first to last, several requests at once, and
  // returns. Advice: what fails is read when it is used. One part at a time.
  virtual void fetch(std::span<const std::byte>) const {}
  // Until the last fetch() is done.
  virtual void wait_fetched() const {}
  // Takes a part out of the page cache, where nobody else uses it and the disk has it, to be read
  // again: pages that were written in small pieces come back as large ones.
  virtual void drop_cached(std::span<const std::byte>) const {}
};

// A regular file that is read past the page cache, several requests at once. Offsets, addresses and
// sizes are multiples of kDirectAlignment; a request may reach past the end of the file.
class DirectFile {
 public:
  // bytes: how many came, fewer than asked for at the end of the file or where the system felt like
  // it; negative: an errno.
  struct Done {
    std::uint32_t id;
    std::int64_t bytes;
  };
  virtual ~DirectFile() = default;  // waits for what was started
  virtual std::uint64_t size() const = 0;
  virtual std::string_view way() const = 0;  // "io_uring, O_DIRECT"
  // At most `depth` of open_direct() at once. `into` stays the caller's until wait() named `id`.
  virtual Status start(std::uint32_t id, std::uint64_t offset, std::span<std::byte> into) = 0;
  // For any one that was started. An error when the system does not say, which ends the reading.
  virtual Result<Done> wait() = 0;
  // False when the file was written to since it was opened.
  virtual bool is_unchanged() const = 0;
};

inline constexpr std::uint64_t kDirectAlignment = 4096;

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
  // By io_uring, else by threads; past the page cache, else through it: DirectFile::way() says so.
  // Errors: those of map().
  virtual Result<std::unique_ptr<DirectFile>> open_direct(const std::string& path,
                                                          std::uint32_t depth) = 0;
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
