#include "text/token_set.hpp"

#include <bit>

namespace orrery::text {

TokenSet::TokenSet(std::span<const std::uint32_t> bits) {
  std::size_t count = 0;
  for (const std::uint32_t word : bits) count += static_cast<std::size_t>(std::popcount(word));
  if (count >= bits.size()) {
    bits_.assign(bits.begin(), bits.end());
    return;
  }
  list_.reserve(count);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    for (std::uint32_t word = bits[i]; word != 0; word &= word - 1) {
      list_.push_back(static_cast<TokenId>(i * 32) + std::countr_zero(word));
    }
  }
}

void TokenSet::add_to(std::span<std::uint32_t> bits) const {
  for (std::size_t i = 0; i < bits_.size(); ++i) bits[i] |= bits_[i];
  for (const TokenId id : list_) set_token(bits, id);
}

}  // namespace orrery::text
