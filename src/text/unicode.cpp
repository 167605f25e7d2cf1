#include "text/unicode.hpp"

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "base/check.hpp"

namespace orrery::text {
namespace {

bool is_continuation(std::uint8_t byte) {
  return (byte & 0xC0U) == 0x80U;
}

utf8proc_category_t category(std::uint32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

constexpr std::uint32_t kMaxCode = 0x10FFFF;

std::array<CharClass, 128> make_ascii_classes() {
  std::array<CharClass, 128> classes{};
  for (std::uint32_t c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    classes[c] = letter  ? CharClass::letter
                 : digit ? CharClass::number
                 : space ? CharClass::space
                         : CharClass::other;
  }
  return classes;
}

const std::array<CharClass, 128> kAsciiClasses = make_ascii_classes();

// Calls utf8proc's mapper; its only failures are lack of memory and ill-formed input.
std::string mapped(std::string_view text, int options) {
  utf8proc_uint8_t* raw = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &raw,
                                             static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(raw, &std::free);
  if (size < 0) return std::string(text);
  return std::string(reinterpret_cast<const char*>(raw), static_cast<std::size_t>(size));
}

// True when no character can change: below U+0300 every text is in NFC, below U+0080 in all forms.
bool is_trivially_normal(std::string_view text, NormalForm form) {
  const std::uint8_t first_suspect = form == NormalForm::nfc ? 0xCC : 0x80;
  for (const char c : text) {
    if (static_cast<std::uint8_t>(c) >= first_suspect) return false;
  }
  return true;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t position) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[position + i]); };
  const std::size_t left = text.size() - position;
  const std::uint8_t lead = at(0);
  if (lead < 0x80) return {lead, 1, true};
  const CodePoint bad{lead, 1, false};
  if (lead < 0xC2 || lead > 0xF4) return bad;
  const std::uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (left < length) return bad;
  std::uint32_t code = lead & (0x7FU >> length);
  for (std::uint32_t i = 1; i < length; ++i) {
    if (!is_continuation(at(i))) return bad;
    code = (code << 6U) | (at(i) & 0x3FU);
  }
  const bool too_long = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (too_long || surrogate || code > kMaxCode) return bad;
  return {code, length, true};
}

std::size_t utf8_run_end(std::string_view text, std::size_t start, bool valid) {
  std::size_t position = start;
  while (position < text.size()) {
    const CodePoint point = decode_utf8(text, position);
    if (point.valid != valid) break;
    position += point.length;
  }
  return position;
}

bool is_valid_utf8(std::string_view text) {
  return utf8_run_end(text, 0, true) == text.size();
}

void append_utf8(std::string& out, std::uint32_t code) {
  ORRERY_CHECK(code <= kMaxCode);
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
    return;
  }
  const std::uint32_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  const std::uint32_t mark = length == 2 ? 0xC0 : length == 3 ? 0xE0 : 0xF0;
  out.push_back(static_cast<char>(mark | (code >> (6 * (length - 1)))));
  for (std::uint32_t i = length - 1; i-- > 0;) {
    out.push_back(static_cast<char>(0x80U | ((code >> (6 * i)) & 0x3FU)));
  }
}

CharClass char_class(std::uint32_t code) {
  if (code < 128) return kAsciiClasses[code];
  if (is_white_space(code)) return CharClass::space;
  if (is_letter(code)) return CharClass::letter;
  if (is_number(code)) return CharClass::number;
  return CharClass::other;
}

bool is_letter(std::uint32_t code) {
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool is_mark(std::uint32_t code) {
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(std::uint32_t code) {
  return category(code) == UTF8PROC_CATEGORY_MN;
}

bool is_number(std::uint32_t code) {
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

bool is_white_space(std::uint32_t code) {
  if (code < 128) return kAsciiClasses[code] == CharClass::space;
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_punctuation(std::uint32_t code) {
  if (code < 128) return kAsciiClasses[code] == CharClass::other && code > ' ' && code != 127;
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool is_control(std::uint32_t code) {
  const auto c = category(code);
  return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CS ||
         c == UTF8PROC_CATEGORY_CO;
}

bool is_word(std::uint32_t code) {
  return is_letter(code) || is_mark(code) || category(code) == UTF8PROC_CATEGORY_ND ||
         category(code) == UTF8PROC_CATEGORY_PC;
}

bool is_cjk(std::uint32_t code) {
  struct Range {
    std::uint32_t first, last;
  };
  // The blocks of the original BERT tokenizer, with the start that its common port uses for the
  // fifth extension.
  static constexpr std::array<Range, 8> kRanges = {{{0x4E00, 0x9FFF},
                                                    {0x3400, 0x4DBF},
                                                    {0x20000, 0x2A6DF},
                                                    {0x2A700, 0x2B73F},
                                                    {0x2B740, 0x2B81F},
                                                    {0x2B920, 0x2CEAF},
                                                    {0xF900, 0xFAFF},
                                                    {0x2F800, 0x2FA1F}}};
  for (const Range& range : kRanges) {
    if (code >= range.first && code <= range.last) return true;
  }
  return false;
}

std::string normalize(std::string_view text, NormalForm form) {
  if (is_trivially_normal(text, form)) return std::string(text);
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  return mapped(text, UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                          (compatible ? UTF8PROC_COMPAT : 0));
}

std::string lower_case(std::string_view text) {
  constexpr std::uint32_t kCapitalIWithDot = 0x130;  // the only full mapping of two characters
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    if (!point.valid) {
      out.append(text, i, point.length);
    } else if (point.code == kCapitalIWithDot) {
      out += "i\xCC\x87";
    } else {
      append_utf8(out, static_cast<std::uint32_t>(
                           utf8proc_tolower(static_cast<utf8proc_int32_t>(point.code))));
    }
    i += point.length;
  }
  return out;
}

std::uint32_t byte_to_alphabet(std::uint8_t byte) {
  // Printable Latin-1 stands for itself; the rest follows from U+0100 on, in order of value.
  if (byte >= 0x21 && byte <= 0x7E) return byte;
  if (byte >= 0xA1 && byte != 0xAD) return byte;
  if (byte <= 0x20) return 0x100U + byte;
  if (byte <= 0xA0) return 0x100U + 0x21U + (byte - 0x7FU);
  return 0x100U + 0x43U;  // 0xAD, the last one
}

int alphabet_to_byte(std::uint32_t code) {
  if (code >= 0x21 && code <= 0x7E) return static_cast<int>(code);
  if (code >= 0xA1 && code <= 0xFF && code != 0xAD) return static_cast<int>(code);
  if (code >= 0x100 && code <= 0x120) return static_cast<int>(code - 0x100);
  if (code >= 0x121 && code <= 0x142) return static_cast<int>(code - 0x121 + 0x7F);
  return code == 0x143 ? 0xAD : -1;
}

}  // namespace orrery::text
