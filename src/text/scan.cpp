#include "text/scan.hpp"

#include "text/unicode.hpp"

namespace orrery::text {
namespace {

struct Char {
  std::uint32_t code = 0;
  CharClass kind = CharClass::other;
  std::size_t end = 0;  // position behind it
};

// The character at `position`; class `other` with end == position stands for the end of the text.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool at_end(std::size_t position) const { return position >= text_.size(); }
  Char read(std::size_t position) const {
    if (at_end(position)) return {0, CharClass::other, position};
    const CodePoint point = decode_utf8(text_, position);
    return {point.code, char_class(point.code), position + point.length};
  }
  bool is(std::size_t position, CharClass kind) const {
    return !at_end(position) && read(position).kind == kind;
  }
  // End of the run of `kind` from `position`, at most `limit` characters (0: no limit).
  std::size_t run(std::size_t position, CharClass kind, std::uint32_t limit = 0) const {
    for (std::uint32_t n = 0; limit == 0 || n < limit; ++n) {
      if (at_end(position)) break;
      const Char c = read(position);
      if (c.kind != kind) break;
      position = c.end;
    }
    return position;
  }

 private:
  std::string_view text_;
};

bool is_line_end(std::uint32_t code) {
  return code == '\r' || code == '\n';
}

// Lower case of the few letters that contractions use; the long s folds to s when `any_case`.
std::uint32_t fold(std::uint32_t code, bool any_case) {
  constexpr std::uint32_t kLongS = 0x17F;
  if (!any_case) return code;
  if (code == kLongS) return 's';
  return code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code;
}

// End of 's 't 're 've 'm 'll 'd at `start` (an apostrophe), or `start`.
std::size_t contraction_end(const Reader& reader, std::size_t start, bool any_case) {
  const std::size_t first_at = start + 1;
  if (reader.at_end(first_at)) return start;
  const Char first = reader.read(first_at);
  const std::uint32_t a = fold(first.code, any_case);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return first.end;
  if (reader.at_end(first.end)) return start;
  const Char second = reader.read(first.end);
  const std::uint32_t b = fold(second.code, any_case);
  const bool matches = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
  return matches ? second.end : start;
}

// \s+(?!\S)|\s+ : all of the run at the end of the text, else all but its last character.
std::size_t space_end(const Reader& reader, std::size_t start) {
  std::size_t position = start;
  std::size_t last = start;  // where the run's last character starts
  while (reader.is(position, CharClass::space)) {
    last = position;
    position = reader.read(position).end;
  }
  return reader.at_end(position) || last == start ? position : last;
}

// \s*[\r\n]+ : up to and with the last line end of the run of white space, or `start`.
std::size_t line_end(const Reader& reader, std::size_t start) {
  std::size_t end = start;
  for (std::size_t position = start; reader.is(position, CharClass::space);) {
    const Char c = reader.read(position);
    position = c.end;
    if (is_line_end(c.code)) end = position;
  }
  return end;
}

std::size_t scan_gpt2(const Reader& reader, std::size_t start) {
  const Char c = reader.read(start);
  if (c.code == '\'') {
    const std::size_t end = contraction_end(reader, start, false);
    if (end != start) return end;
  }
  const std::size_t body = c.code == ' ' ? c.end : start;
  if (!reader.at_end(body)) {
    const CharClass kind = reader.read(body).kind;
    if (kind != CharClass::space) return reader.run(body, kind);
  }
  return space_end(reader, start);
}

std::size_t scan_llama3(const Reader& reader, std::size_t start, std::uint32_t max_digits) {
  const Char c = reader.read(start);
  if (c.code == '\'') {
    const std::size_t end = contraction_end(reader, start, true);
    if (end != start) return end;
  }
  if (c.kind == CharClass::letter) return reader.run(start, CharClass::letter);
  if (c.kind == CharClass::number) return reader.run(start, CharClass::number, max_digits);
  if (!is_line_end(c.code) && reader.is(c.end, CharClass::letter)) {
    return reader.run(c.end, CharClass::letter);
  }
  const std::size_t body = c.code == ' ' ? c.end : start;
  if (reader.is(body, CharClass::other)) {
    std::size_t end = reader.run(body, CharClass::other);
    while (!reader.at_end(end) && is_line_end(reader.read(end).code)) ++end;
    return end;
  }
  const std::size_t end = line_end(reader, start);
  return end != start ? end : space_end(reader, start);
}

}  // namespace

std::optional<Scanner> scanner_for(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return Scanner{Scanner::Kind::gpt2, 0};
  if (pattern == kLlama3Pattern) return Scanner{Scanner::Kind::llama3, 3};
  if (pattern == kQwen2Pattern) return Scanner{Scanner::Kind::llama3, 1};
  return std::nullopt;
}

std::size_t scan_word(const Scanner& scanner, std::string_view text, std::size_t start) {
  const Reader reader(text);
  if (scanner.kind == Scanner::Kind::gpt2) return scan_gpt2(reader, start);
  return scan_llama3(reader, start, scanner.max_digits);
}

}  // namespace orrery::text
