#include "text/vocabulary.hpp"

namespace orrery::text {
namespace {
constexpr std::string_view kHex = "0123456789ABCDEF";
}

std::array<TokenId, 256> Vocabulary::byte_tokens() const {
  std::array<TokenId, 256> ids{};
  for (std::size_t byte = 0; byte < ids.size(); ++byte) {
    const std::array<char, 6> text = {'<', '0', 'x', kHex[byte >> 4U], kHex[byte & 15U], '>'};
    ids[byte] = find(std::string_view(text.data(), text.size()));
  }
  return ids;
}

int parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const std::size_t high = kHex.find(text[3]);
  const std::size_t low = kHex.find(text[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return -1;
  return static_cast<int>(high * 16 + low);
}

}  // namespace orrery::text
