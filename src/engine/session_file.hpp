// Sessions that survive their process: tokens, pages and a text of the caller's in one file
// (kv_file.hpp). What comes back is mapped, not computed again, and gives the bits that the session
// would have given had it gone on. Saving again after more tokens writes the new pages alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/kv_file.hpp"
#include "engine/kv_restore.hpp"
#include "engine/session.hpp"
#include "storage/state_file.hpp"

namespace orrery::engine {

// Borrows `io`. It may be closed before the sessions that it restored; while it is open, it is the
// only one in the system with this file.
class SessionFile {
 public:
  // A file that is not there is made by the first save(). Errors: those of KvFile::open; a session
  // that cannot be used is none of them: restore() gives nothing and says why.
  static Result<std::unique_ptr<SessionFile>> open(storage::StateIo& io, const std::string& path,
                                                   const KvIdentity& identity);

  // What was given to the last save(), also where the pages are another model's; "" if nothing was
  // saved.
  std::string_view text() const;
  // Likewise; the whole list, of which restore() may bring back a part only.
  std::span<const text::TokenId> tokens() const;
  // Nothing was saved yet.
  bool is_new() const { return !file_->index() && !file_->refusal(); }

  // Gives the pages to a session, which is cleared first. Every page is compared with its checksum;
  // what is damaged is cut off. Takes the executor's turn, but not while it reads pages.
  Restored restore(Session& session);
  // Nobody may run the session meanwhile; others run. An error (those of KvFile::commit, E_ADAPTER
  // for a session with adapters) changes nothing: the file is as it was, the session goes on.
  Status save(Session& session, std::string text);
  // Of the last commit.
  std::uint64_t bytes() const { return file_->live_bytes(); }

 private:
  struct Gathered {
    std::vector<std::vector<std::uint32_t>> entries;  // (groups)(pages)
    PageBytes bytes;
  };
  static Result<Gathered> gather(const Session& session);

  SessionFile(std::unique_ptr<KvFile> file, const KvIdentity& identity);

  std::unique_ptr<KvFile> file_;
  KvIdentity identity_;
  std::uint64_t id_;  // of this process alone
};

}  // namespace orrery::engine
