#include "text/jinja_text.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace orrery::text::jinja {

bool Text::markup_at(std::size_t offset) const {
  const auto flip = std::upper_bound(flips_.begin(), flips_.end(), offset);
  return first_markup_ != ((flip - flips_.begin()) % 2 != 0);
}

void Text::append(std::string_view bytes, bool markup) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    first_markup_ = markup;
    flips_.clear();
  } else if (last_markup() != markup) {
    flips_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  bytes_.append(bytes);
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  bool markup = other.markup_at(begin);
  auto flip = std::upper_bound(other.flips_.begin(), other.flips_.end(), begin);
  for (; flip != other.flips_.end() && *flip < end; ++flip) {
    append(other.view().substr(begin, *flip - begin), markup);
    begin = *flip;
    markup = !markup;
  }
  append(other.view().substr(begin, end - begin), markup);
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out;
  if (begin < end) out.reserve(end - begin);
  out.append(*this, begin, end);
  return out;
}

Character character_at(std::string_view bytes, std::size_t offset) {
  const auto first = static_cast<unsigned char>(bytes[offset]);
  if (first < 0x80) return {first, 1, true};
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data() + offset),
                       static_cast<utf8proc_ssize_t>(bytes.size() - offset), &code);
  if (length <= 0) return {first, 1, false};
  return {code, static_cast<std::uint32_t>(length), true};
}

void append_utf8(std::string& out, std::int32_t code) {
  std::array<utf8proc_uint8_t, 4> buffer{};
  const utf8proc_ssize_t length = utf8proc_encode_char(code, buffer.data());
  out.append(reinterpret_cast<const char*>(buffer.data()), static_cast<std::size_t>(length));
}

std::size_t character_count(std::string_view bytes) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes.size(); ++count) at += character_at(bytes, at).length;
  return count;
}

std::size_t byte_offset(std::string_view bytes, std::size_t character) {
  std::size_t at = 0;
  for (; character > 0 && at < bytes.size(); --character) at += character_at(bytes, at).length;
  return at;
}

bool is_space(std::int32_t code) {
  if (code < 0x80) return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20);
  return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
         code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_printable(std::int32_t code) {
  if (code == ' ') return true;
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_alpha(std::int32_t code) {
  const auto category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(std::int32_t code) {
  return utf8proc_category(code) == UTF8PROC_CATEGORY_ND;
}

bool is_word(std::int32_t code) {
  const auto category = utf8proc_category(code);
  return code == '_' || is_alpha(code) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

namespace {

// Characters whose upper case is more than one character (Unicode SpecialCasing, the common ones).
struct SpecialUpper {
  std::int32_t code;
  std::string_view upper;
  std::string_view title;
};
constexpr std::array<SpecialUpper, 9> kSpecialUpper{{{0xdf, "SS", "Ss"},
                                                     {0x149, "\xca\xbcN", "\xca\xbcN"},
                                                     {0x1f0, "J\xcc\x8c", "J\xcc\x8c"},
                                                     {0xfb00, "FF", "Ff"},
                                                     {0xfb01, "FI", "Fi"},
                                                     {0xfb02, "FL", "Fl"},
                                                     {0xfb03, "FFI", "Ffi"},
                                                     {0xfb04, "FFL", "Ffl"},
                                                     {0xfb06, "ST", "St"}}};
constexpr std::int32_t kCapitalSigma = 0x3a3;

bool is_cased(std::int32_t code) {
  return utf8proc_toupper(code) != code || utf8proc_tolower(code) != code;
}

// A capital sigma that ends a word becomes the final form.
bool is_final_sigma(std::string_view bytes, std::size_t begin, std::size_t end) {
  const bool cased_after = end < bytes.size() && is_cased(character_at(bytes, end).code);
  if (cased_after || begin == 0) return false;
  std::size_t before = begin - 1;
  while (before > 0 && (static_cast<unsigned char>(bytes[before]) & 0xc0U) == 0x80U) --before;
  return is_cased(character_at(bytes, before).code);
}

std::string cased(std::string_view bytes, std::size_t at, Character character, Casing casing) {
  std::string out;
  const std::int32_t code = character.code;
  if (casing == Casing::lower) {
    if (code == kCapitalSigma && is_final_sigma(bytes, at, at + character.length))
      return "\xcf\x82";
    if (code == 0x130) return "i\xcc\x87";
    append_utf8(out, utf8proc_tolower(code));
    return out;
  }
  for (const SpecialUpper& special : kSpecialUpper) {
    if (special.code == code) {
      return std::string(casing == Casing::upper ? special.upper : special.title);
    }
  }
  append_utf8(out, casing == Casing::upper ? utf8proc_toupper(code) : utf8proc_totitle(code));
  return out;
}

}  // namespace

Text change_case(const Text& text, Casing casing) {
  Text out;
  out.reserve(text.size());
  const std::string_view bytes = text.view();
  for (std::size_t at = 0; at < bytes.size();) {
    const Character character = character_at(bytes, at);
    if (!character.valid) {
      out.append(bytes.substr(at, 1), text.markup_at(at));
    } else if (character.code < 0x80) {
      const char c = bytes[at];
      const bool lower = casing == Casing::lower;
      const bool change = lower ? (c >= 'A' && c <= 'Z') : (c >= 'a' && c <= 'z');
      const char changed = change ? static_cast<char>(c ^ 0x20) : c;
      out.append(std::string_view(&changed, 1), text.markup_at(at));
    } else {
      out.append(cased(bytes, at, character, casing), text.markup_at(at));
    }
    at += character.length;
  }
  return out;
}

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace orrery::text::jinja
