// The file of a saved session. This module alone defines and writes it.
//
//   bytes 0 to 511        magic "ORRERYKV", u32 version, u32 0, u64 XXH3 of those 16 bytes
//   512 and 1024, 40 each two slots: u64 number of the commit, offset, bytes and XXH3 of its index,
//                         and XXH3 of these four; the valid slot of the higher number counts
//   from 4096             pages in kernel layout and indices (kv_index.hpp), each at a multiple of
//                         4096; little-endian throughout
//
// A commit appends the pages that are new and its index, waits until they are on the disk, and only
// then writes the slot that does not count: whatever is lost in a crash, one of the two stands on
// bytes that were on the disk before. Nothing that a slot names is ever written again, so that
// pages may be mapped while the session grows. Once more than half of the file is of no more use, a
// commit writes a new file instead, which takes the name when it is whole.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "engine/kv_index.hpp"
#include "storage/state_file.hpp"

namespace orrery::engine {

// (groups)(pages): the bytes of each page of an index.
using PageBytes = std::vector<std::vector<std::span<const std::byte>>>;

class KvFile {
 public:
  // Locks the file and reads its last commit; where there is none, the first commit makes it.
  // Errors: E_BUSY while another has it open, E_FORMAT for a file that is something else and so is
  // not to be replaced, E_NOTFILE, E_PERM, E_IO.
  static Result<std::unique_ptr<KvFile>> open(storage::StateIo& io, const std::string& path);

  // The last commit; empty where there is none.
  const std::optional<KvIndex>& index() const { return index_; }
  // E_SESSION: why the file that is there cannot be used; the next commit replaces it.
  const std::optional<Error>& refusal() const { return refusal_; }
  // Of the last commit; only where index() is.
  const storage::StateFile& file() const { return *file_; }

  // Of the last commit's pages and index.
  std::uint64_t live_bytes() const { return live_; }
  // Pages of `next` with an offset are in the file already. After an error the last commit stands.
  // Errors: E_DISKFULL, E_IO, E_BUSY when another process made the file meanwhile.
  Status commit(KvIndex next, const PageBytes& bytes);

 private:
  KvFile(storage::StateIo& io, std::string path) : io_(io), path_(std::move(path)) {}
  Status read();
  Status read_slots();
  Status read_index(std::uint64_t offset, std::uint64_t bytes, std::uint64_t hash);
  bool must_rewrite() const;
  Status append(KvIndex& next, const PageBytes& bytes);
  Status rewrite(KvIndex& next, const PageBytes& bytes);

  struct Slot {
    std::uint64_t commit = 0, offset = 0, bytes = 0, hash = 0;
  };
  static Result<Slot> write_body(storage::StateFile& file, std::uint64_t& end, KvIndex& next,
                                 const PageBytes& bytes);
  static Status write_slot(storage::StateFile& file, std::size_t slot, const Slot& value);

  storage::StateIo& io_;
  std::string path_;
  std::unique_ptr<storage::StateFile> file_;
  std::optional<KvIndex> index_;
  std::optional<Error> refusal_;
  std::size_t slot_ = 0;       // that counts
  std::uint64_t commit_ = 0;   // the highest number seen
  std::uint64_t end_ = 0;      // where the next commit is appended
  std::uint64_t live_ = 0;     // bytes of the last commit's pages and index
  bool is_uncertain_ = false;  // what the disk has is not known: nothing may be appended
};

}  // namespace orrery::engine
