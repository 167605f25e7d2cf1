// Bytes in groups that grammars seldom tell apart, so that what may stand in many texts is one
// word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace orrery::text {

// Bit i: bytes of kByteClasses[i].
using ByteClasses = std::uint32_t;

inline constexpr std::array<std::string_view, 29> kByteClasses = {
    "abcdef",     "ghijklmnopqrstuvwxyz",
    "ABCDEF",     "GHIJKLMNOPQRSTUVWXYZ",
    "0123456789", " ",
    "\n",         "\t",
    "\r",         "\"",
    "\\",         "_",
    "-",          ".",
    ",",          ":",
    ";",          "{}",
    "[]",         "()",
    "<",          ">",
    "/",          "*+",
    "=",          "'",
    "`",          "!?",
    "#$%&@^|~"};
inline constexpr ByteClasses kWideClass = 1U << 30;   // whole characters beyond ASCII
inline constexpr ByteClasses kOtherClass = 1U << 31;  // bytes of no class, or of no whole character

ByteClasses class_of(std::uint8_t byte);

// What `text` holds from each of its bytes on, and how many characters; for bytes within a
// character it is kOtherClass.
struct TextClasses {
  ByteClasses classes = 0;
  std::uint32_t characters = 0;
};
// `out` has room for text.size() + 1.
void classify(std::string_view text, std::span<TextClasses> out);

}  // namespace orrery::text
