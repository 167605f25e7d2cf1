#include "text/token_map.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.hpp"

namespace orrery::text {
namespace {

constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15ULL;

// Both halves of the product: every bit of the value reaches the low ones, which choose the slot.
std::uint64_t mix(std::uint64_t value) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{value} * kMix;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

template <class T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::size_t table_size(std::size_t n) {
  return std::bit_ceil(std::max<std::size_t>(16, n + n / 2));
}

}  // namespace

// The last step takes the last eight bytes, or what there is in loads of known sizes, which may
// overlap: most texts are that short.
std::uint64_t hash_text(std::string_view text) {
  const char* at = text.data();
  std::size_t left = text.size();
  std::uint64_t hash = kMix ^ left;
  for (; left > 8; left -= 8, at += 8) hash = mix(hash ^ load<std::uint64_t>(at));
  if (left >= 4) {
    const std::uint64_t high = load<std::uint32_t>(at + left - 4);
    return mix(hash ^ load<std::uint32_t>(at) ^ (high << 32U));
  }
  if (left == 0) return mix(hash);
  const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<std::uint8_t>(at[i])}; };
  return mix(hash ^ byte(0) ^ (byte(left / 2) << 8U) ^ (byte(left - 1) << 16U));
}

TokenMap::TokenMap(std::span<const std::string_view> tokens)
    : tokens_(tokens), slots_(table_size(tokens.size())) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].empty()) continue;
    longest_ = std::max(longest_, tokens[i].size());
    const std::uint64_t hash = hash_text(tokens[i]);
    const auto tag = static_cast<std::uint32_t>(hash >> 32U);
    std::size_t slot = hash & mask;
    bool is_duplicate = false;
    while (slots_[slot].id != kNoToken && !is_duplicate) {
      is_duplicate = slots_[slot].tag == tag && tokens[slots_[slot].id] == tokens[i];
      slot = (slot + 1) & mask;
    }
    has_twins_ = has_twins_ || is_duplicate;
    if (!is_duplicate) slots_[slot] = {tag, static_cast<TokenId>(i)};
  }
}

TokenId TokenMap::find(std::string_view text) const {
  if (slots_.empty()) return kNoToken;
  const std::uint64_t hash = hash_text(text);
  const auto tag = static_cast<std::uint32_t>(hash >> 32U);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash & mask; slots_[slot].id != kNoToken; slot = (slot + 1) & mask) {
    if (slots_[slot].tag == tag && tokens_[slots_[slot].id] == text) return slots_[slot].id;
  }
  return kNoToken;
}

namespace {
std::uint64_t pair_key(TokenId left, TokenId right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32U) |
         static_cast<std::uint32_t>(right);
}
}  // namespace

PairMap::PairMap(std::size_t capacity) : slots_(table_size(capacity)) {}

bool PairMap::insert(TokenId left, TokenId right, Value value) {
  const std::uint64_t key = pair_key(left, right);
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = mix(key) & mask;
  while (slots_[slot].key != kEmpty) {
    if (slots_[slot].key == key) return false;
    slot = (slot + 1) & mask;
  }
  slots_[slot] = {key, value};
  return true;
}

PairMap::Value PairMap::find(TokenId left, TokenId right) const {
  if (slots_.empty()) return {};
  const std::uint64_t key = pair_key(left, right);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = mix(key) & mask; slots_[slot].key != kEmpty; slot = (slot + 1) & mask) {
    if (slots_[slot].key == key) return slots_[slot].value;
  }
  return {};
}

std::size_t ByteTrie::slot_of(std::uint64_t key) const {
  const std::size_t mask = edges_.size() - 1;
  std::size_t slot = mix(key) & mask;
  while (edges_[slot].key != kNoEdge && edges_[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

void ByteTrie::grow() {
  std::vector<Edge> old(edges_.size() * 2);
  old.swap(edges_);
  for (const Edge& edge : old) {
    if (edge.key != kNoEdge) edges_[slot_of(edge.key)] = edge;
  }
}

void ByteTrie::insert(std::string_view text, TokenId id) {
  ORRERY_CHECK(!text.empty());
  std::uint32_t node = kRoot;
  for (const char c : text) {
    if (2 * (n_edges_ + 1) > edges_.size()) grow();
    const std::uint64_t key = (std::uint64_t{node} << 8U) | static_cast<std::uint8_t>(c);
    Edge& edge = edges_[slot_of(key)];
    if (edge.key == kNoEdge) {
      edge = {key, static_cast<std::uint32_t>(values_.size())};
      values_.push_back(kNoToken);
      ++n_edges_;
    }
    node = edge.node;
  }
  if (values_[node] == kNoToken) values_[node] = id;
}

std::uint32_t ByteTrie::child(std::uint32_t node, std::uint8_t byte) const {
  const Edge& edge = edges_[slot_of((std::uint64_t{node} << 8U) | byte)];
  return edge.key == kNoEdge ? kNone : edge.node;
}

}  // namespace orrery::text
