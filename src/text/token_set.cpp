#include "text/token_set.hpp"

#include <algorithm>
#include <bit>

namespace orrery::text {
namespace {

// Words looked at together: most are zero.
constexpr std::size_t kGroup = 16;

std::uint32_t any_of(std::span<const std::uint32_t> words) {
  std::uint32_t any = 0;
  for (const std::uint32_t word : words) any |= word;
  return any;
}

}  // namespace

TokenSet::TokenSet(std::span<const std::uint32_t> bits) {
  for (std::size_t first = 0; first < bits.size(); first += kGroup) {
    const std::size_t end = std::min(first + kGroup, bits.size());
    if (any_of(bits.subspan(first, end - first)) == 0) continue;
    for (std::size_t i = first; i < end; ++i) {
      for (std::uint32_t word = bits[i]; word != 0; word &= word - 1) {
        list_.push_back(static_cast<TokenId>(i * 32) + std::countr_zero(word));
      }
    }
    if (list_.size() < bits.size()) continue;
    list_ = {};
    bits_.assign(bits.begin(), bits.end());
    return;
  }
}

TokenSet::TokenSet(std::span<const std::uint32_t> bits, std::span<const TokenId> candidates) {
  if (candidates.size() >= bits.size()) {
    *this = TokenSet(bits);
    return;
  }
  for (const TokenId id : candidates) {
    if (has_token(bits, id)) list_.push_back(id);
  }
}

void TokenSet::add_to(std::span<std::uint32_t> bits) const {
  for (std::size_t i = 0; i < bits_.size(); ++i) bits[i] |= bits_[i];
  for (const TokenId id : list_) set_token(bits, id);
}

}  // namespace orrery::text
