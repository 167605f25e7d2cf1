// What a commit of a session file says: the tokens, which pages hold their keys and values, and
// whose they are (kv_file.hpp has the file around it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/executor.hpp"
#include "text/tokenizer.hpp"

namespace orrery::engine {

// What the bytes of pages depend on besides their tokens, as hashes.
struct KvIdentity {
  std::uint64_t model_low = 0, model_high = 0;  // tensor table, metadata and samples of the weights
  std::uint64_t caches = 0;                     // kinds, shapes and types of the cache groups
  std::uint64_t classes = 0;                    // how the phases round, rotate and mask
  bool operator==(const KvIdentity&) const = default;
};
// `files` may be null: then the weights are taken for those of the file.
KvIdentity kv_identity(const Executor& executor, const storage::Checkpoint* files);
// Why pages of `saved` are of no use to `mine`, as the middle of a sentence; "" when they are.
std::string_view difference(const KvIdentity& saved, const KvIdentity& mine);

// One page of a cache group.
struct SavedPage {
  std::uint32_t entry = 0;     // of the table: positions from 64 entry on
  std::uint64_t offset = 0;    // in the file, a multiple of 4096; 0: not written yet
  std::uint64_t checksum = 0;  // of its bytes, seeded with the key of its tokens
  bool operator==(const SavedPage&) const = default;
};

struct KvIndex {
  KvIdentity identity;
  std::vector<text::TokenId> tokens;
  std::vector<std::vector<SavedPage>> pages;  // (groups), ascending by entry
  std::string text;                           // the caller's own
};

// Limits of a file's index.
inline constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{512} << 20;
inline constexpr std::uint32_t kMaxSavedTokens = 1U << 24;
inline constexpr std::uint32_t kMaxSavedGroups = 64;
inline constexpr std::uint64_t kMaxSavedText = std::uint64_t{64} << 20;

// Keys of the pages of 64 tokens (the last one may have fewer): each is a hash of its tokens and of
// the key before it, the first one of the identity.
std::vector<std::uint64_t> page_keys(const KvIdentity& identity,
                                     std::span<const text::TokenId> tokens);
std::uint64_t page_checksum(std::span<const std::byte> bytes, std::uint64_t key);

std::string encode_index(const KvIndex& index);
// E_SESSION for bytes that are no index. Offsets are those of the file, unchecked.
Result<KvIndex> decode_index(std::span<const std::byte> bytes, const std::string& label);

}  // namespace orrery::engine
