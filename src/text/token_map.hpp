// Hash tables of a vocabulary: text -> id, and (id, id) -> merge. Open addressing, built once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.hpp"

namespace orrery::text {

// A short text's hash: eight bytes a step, not meant to withstand an adversary (a flood of equal
// hashes costs the one who made the file).
std::uint64_t hash_text(std::string_view text);

class TokenMap {
 public:
  TokenMap() = default;
  // `tokens` must outlive the map. Empty texts are left out; of equal texts the lowest id stays.
  explicit TokenMap(std::span<const std::string_view> tokens);

  TokenId find(std::string_view text) const;
  std::size_t longest() const { return longest_; }  // bytes of the longest text
  bool has_twins() const { return has_twins_; }     // some texts are equal

 private:
  struct Slot {
    std::uint32_t tag = 0;
    TokenId id = kNoToken;
  };
  std::span<const std::string_view> tokens_;
  std::vector<Slot> slots_;  // a power of two
  std::size_t longest_ = 0;
  bool has_twins_ = false;
};

class PairMap {
 public:
  struct Value {
    std::uint32_t rank = kNoRank;
    TokenId result = kNoToken;
  };
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

  PairMap() = default;
  explicit PairMap(std::size_t capacity);
  // Keeps the first value of a pair, and is false for any other; at most `capacity` pairs.
  bool insert(TokenId left, TokenId right, Value value);
  Value find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    std::uint64_t key = kEmpty;
    Value value;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  std::vector<Slot> slots_;  // a power of two, never full
};

// A byte trie over a hash of edges; walks end at the first byte that no token continues with.
class ByteTrie {
 public:
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  // Keeps the first id of a text. `text` is not empty.
  void insert(std::string_view text, TokenId id);
  std::uint32_t child(std::uint32_t node, std::uint8_t byte) const;
  TokenId value(std::uint32_t node) const { return values_[node]; }
  bool empty() const { return values_.size() == 1; }

 private:
  struct Edge {
    std::uint64_t key = kNoEdge;
    std::uint32_t node = kNone;
  };
  static constexpr std::uint64_t kNoEdge = ~std::uint64_t{0};
  std::size_t slot_of(std::uint64_t key) const;
  void grow();

  std::vector<Edge> edges_ = std::vector<Edge>(16);
  std::size_t n_edges_ = 0;
  std::vector<TokenId> values_ = {kNoToken};
};

}  // namespace orrery::text
