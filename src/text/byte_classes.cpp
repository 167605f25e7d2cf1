#include "text/byte_classes.hpp"

#include "text/unicode.hpp"

namespace orrery::text {
namespace {

consteval std::array<ByteClasses, 128> class_table() {
  std::array<ByteClasses, 128> table{};
  table.fill(kOtherClass);
  for (std::size_t i = 0; i < kByteClasses.size(); ++i) {
    for (const char c : kByteClasses[i]) table[static_cast<std::uint8_t>(c)] = ByteClasses{1} << i;
  }
  return table;
}
constexpr std::array<ByteClasses, 128> kClassOf = class_table();

}  // namespace

ByteClasses class_of(std::uint8_t byte) {
  return byte < 0x80 ? kClassOf[byte] : kOtherClass;
}

void classify(std::string_view text, std::span<TextClasses> out) {
  // Forwards for where characters begin, and from there back.
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    const std::size_t length = point.valid ? point.length : 1;
    out[i] = {length > 1 ? kWideClass : class_of(static_cast<std::uint8_t>(text[i])), 1};
    for (std::size_t k = 1; k < length; ++k) out[i + k] = {kOtherClass, 0};
    i += length;
  }
  TextClasses behind;
  for (std::size_t i = text.size(); i-- > 0;) {
    if (out[i].characters == 0) continue;  // within a character
    behind = {behind.classes | out[i].classes, behind.characters + 1};
    out[i] = behind;
  }
  out[text.size()] = {};
}

}  // namespace orrery::text
