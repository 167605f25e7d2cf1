// The pages of a session file back in a pool.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "base/fair_mutex.hpp"
#include "base/result.hpp"
#include "engine/kv_index.hpp"
#include "engine/kv_pages.hpp"
#include "storage/state_file.hpp"

namespace orrery::engine {

// What a session got back.
struct Restored {
  std::uint32_t saved = 0;         // tokens in the file
  std::uint32_t tokens = 0;        // of which so many, from the front, need no computing
  std::uint64_t mapped_bytes = 0;  // pages that are the file's
  std::uint64_t read_bytes = 0;    // pages that had to be read: no multiple of the system's
  std::optional<Error> problem;    // why not all of them: E_SESSION, E_MEMORY
};

// Gives an empty sequence as many of the tokens as whole pages are there for, and fills
// `restored`; the sequence has restored.tokens afterwards. `turn` is the lock of the pool: held,
// but for the time in which pages are read and compared, when other sequences may run.
void restore_pages(const KvIndex& index, const storage::StateFile& file, KvPages& kv,
                   SequenceId sequence, std::unique_lock<FairMutex>& turn, Restored& restored);

}  // namespace orrery::engine
