// A set of tokens that is kept: a list where that is shorter, else bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.hpp"

namespace orrery::text {

inline bool has_token(std::span<const std::uint32_t> bits, TokenId id) {
  const auto bit = static_cast<std::uint32_t>(id);
  return (bits[bit / 32] >> (bit % 32) & 1) != 0;
}
inline void set_token(std::span<std::uint32_t> bits, TokenId id) {
  const auto bit = static_cast<std::uint32_t>(id);
  bits[bit / 32] |= std::uint32_t{1} << (bit % 32);
}

class TokenSet {
 public:
  TokenSet() = default;
  explicit TokenSet(std::span<const std::uint32_t> bits);
  // The same where no other bits than those of `candidates` can be set.
  TokenSet(std::span<const std::uint32_t> bits, std::span<const TokenId> candidates);

  void add_to(std::span<std::uint32_t> bits) const;
  std::size_t memory_bytes() const {
    return bits_.size() * sizeof(bits_[0]) + list_.size() * sizeof(list_[0]);
  }

 private:
  std::vector<std::uint32_t> bits_;
  std::vector<TokenId> list_;
};

}  // namespace orrery::text
