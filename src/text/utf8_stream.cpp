#include "text/tokenizer.hpp"
#include "text/unicode.hpp"

namespace orrery::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Whether more bytes could still make a character of `tail`, which starts none yet.
bool is_incomplete(std::string_view tail) {
  const auto lead = static_cast<std::uint8_t>(tail[0]);
  if (lead < 0xC2 || lead > 0xF4) return false;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (tail.size() >= length) return false;
  for (std::size_t i = 1; i < tail.size(); ++i) {
    if ((static_cast<std::uint8_t>(tail[i]) & 0xC0U) != 0x80U) return false;
  }
  // The second byte's range excludes long forms, surrogates and what lies above U+10FFFF.
  const auto second = static_cast<std::uint8_t>(tail.size() > 1 ? tail[1] : 0);
  return tail.size() == 1 || !((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
                               (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F));
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  held_.append(bytes);
  std::string out;
  std::size_t at = 0;
  while (at < held_.size()) {
    const CodePoint point = decode_utf8(held_, at);
    const std::string_view tail = std::string_view(held_).substr(at);
    if (point.valid) {
      out.append(held_, at, point.length);
      at += point.length;
    } else if (is_incomplete(tail)) {
      break;
    } else {
      // One replacement for all that could still have been the start of a character.
      std::size_t length = 1;
      while (length < tail.size() && is_incomplete(tail.substr(0, length + 1))) ++length;
      out += kReplacement;
      at += length;
    }
  }
  held_.erase(0, at);
  return out;
}

std::string Utf8Stream::finish() {
  std::string out;
  if (!held_.empty()) out = kReplacement;
  held_.clear();
  return out;
}

}  // namespace orrery::text
