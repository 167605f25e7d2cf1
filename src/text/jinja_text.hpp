// A byte string that knows of every byte who wrote it: the template (markup) or the caller's
// variables (content). The knowledge survives slicing, joining, replacing and case changes, so that
// the tokenizer can refuse special tokens in content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery::text::jinja {

class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool markup) : bytes_(std::move(bytes)), first_markup_(markup) {}

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool markup_at(std::size_t offset) const;
  // Bytes of memory held, for the budget of a rendering.
  std::size_t footprint() const {
    return bytes_.capacity() + flips_.capacity() * sizeof(std::uint32_t);
  }

  void append(std::string_view bytes, bool markup);
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, std::size_t begin, std::size_t end);
  Text slice(std::size_t begin, std::size_t end) const;
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }

  // Calls visit(bytes, markup) for every run of one provenance, in order.
  template <class Visit>
  void for_each_run(Visit visit) const {
    std::size_t begin = 0;
    bool markup = first_markup_;
    for (const std::uint32_t flip : flips_) {
      visit(view().substr(begin, flip - begin), markup);
      begin = flip;
      markup = !markup;
    }
    if (begin < bytes_.size()) visit(view().substr(begin), markup);
  }

 private:
  bool last_markup() const { return first_markup_ != (flips_.size() % 2 != 0); }

  std::string bytes_;
  std::vector<std::uint32_t> flips_;  // offsets where the provenance changes, ascending
  bool first_markup_ = true;
};

// One character of a byte string: a code point of UTF-8, or one byte that is none (`valid` false).
struct Character {
  std::int32_t code = 0;
  std::uint32_t length = 1;  // bytes
  bool valid = true;
};
Character character_at(std::string_view bytes, std::size_t offset);
void append_utf8(std::string& out, std::int32_t code);

// Characters in a string, and the byte offset of a character (clamped to the end).
std::size_t character_count(std::string_view bytes);
std::size_t byte_offset(std::string_view bytes, std::size_t character);

bool is_space(std::int32_t code);      // str.isspace
bool is_printable(std::int32_t code);  // str.isprintable
bool is_alpha(std::int32_t code);
bool is_digit(std::int32_t code);
bool is_word(std::int32_t code);  // \w of Python's re

enum class Casing : std::uint8_t { upper, lower, title };
// The text with every character's case changed; provenance stays with each character.
Text change_case(const Text& text, Casing casing);

// First occurrence at or after `from`, in linear time, or npos.
std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from);

}  // namespace orrery::text::jinja
