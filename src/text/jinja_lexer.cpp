#include "text/jinja_lexer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "text/jinja_text.hpp"

namespace orrery::text::jinja {

std::unexpected<Error> fail_template(std::uint32_t line, std::uint32_t column,
                                     std::string_view what) {
  return fail("E_TEMPLATE", "chat template, line " + std::to_string(line) + ", column " +
                                std::to_string(column) + ": " + std::string(what));
}

namespace {

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

// Line breaks become \n, and one at the very end is dropped (jinja2's keep_trailing_newline=False).
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      out += source[at];
      continue;
    }
    out += '\n';
    if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool all_space(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!character.valid || !is_space(character.code)) return false;
    at += character.length;
  }
  return true;
}

std::string_view rstrip(std::string_view text) {
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0U) == 0x80U) --begin;
    if (!all_space(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}
  Result<std::vector<Token>> run();

 private:
  Status lex_root();
  Status lex_comment();
  Status lex_raw(std::size_t body);
  Status lex_tag(bool variable);
  Status lex_token();
  Status lex_number();
  Status lex_name();
  Status lex_string();
  Status lex_operator();
  Status balance(char op);
  std::optional<std::size_t> match_raw(std::size_t at) const;
  std::optional<std::size_t> match_endraw(std::size_t at, char& sign) const;
  bool match_end(bool variable);
  void add_data(std::string_view text, char sign, bool strips);
  Token& add(TokenKind kind);
  void place(std::size_t at);
  void skip_space();
  void move_to(std::size_t at);
  bool starts(std::string_view what) const {
    return std::string_view(source_).substr(at_).starts_with(what);
  }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  std::unexpected<Error> error(std::string_view what) const {
    return fail_template(line_, column_, what);
  }

  std::string source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::size_t placed_ = 0;  // line_ and column_ belong to this offset
  std::uint32_t line_ = 1;
  std::uint32_t column_ = 1;
  bool line_starting_ = true;  // what came before ended with a line break
  std::string open_;           // closing brackets that are due
};

void Lexer::place(std::size_t at) {
  for (; placed_ < at; ++placed_) {
    ++column_;
    if (source_[placed_] == '\n') {
      ++line_;
      column_ = 1;
    }
  }
}

void Lexer::move_to(std::size_t at) {
  if (at > at_) line_starting_ = source_[at - 1] == '\n';
  at_ = at;
  place(at);
}

Token& Lexer::add(TokenKind kind) {
  Token& token = tokens_.emplace_back();
  token.kind = kind;
  token.line = line_;
  token.column = column_;
  return token;
}

// Adds the text before a tag; `sign` is the tag's white space control, `strips` whether the tag is
// one that eats its indentation.
void Lexer::add_data(std::string_view text, char sign, bool strips) {
  if (sign == '-') {
    text = rstrip(text);
  } else if (sign != '+' && strips) {
    const std::size_t newline = text.rfind('\n');
    const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    if ((start > 0 || line_starting_) && all_space(text.substr(start)))
      text = text.substr(0, start);
  }
  if (!text.empty()) add(TokenKind::data).text = std::string(text);
}

void Lexer::skip_space() {
  std::size_t at = at_;
  while (at < source_.size()) {
    const Character character = character_at(source_, at);
    if (!character.valid || !is_space(character.code)) break;
    at += character.length;
  }
  move_to(at);
}

// "{% raw %}" at `at`: the offset behind it.
std::optional<std::size_t> Lexer::match_raw(std::size_t at) const {
  const std::string_view text = source_;
  const auto space = [&] {
    while (at < text.size() && is_space(static_cast<unsigned char>(text[at]))) ++at;
  };
  at += 2;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  space();
  if (!text.substr(std::min(at, text.size())).starts_with("raw")) return std::nullopt;
  at += 3;
  space();
  const std::string_view rest = text.substr(std::min(at, text.size()));
  if (rest.starts_with("%}")) return at + 2;
  if (!rest.starts_with("-%}")) return std::nullopt;
  at += 3;
  space();
  return at;
}

std::optional<std::size_t> Lexer::match_endraw(std::size_t at, char& sign) const {
  const std::string_view text = source_;
  const auto space = [&] {
    while (at < text.size() && is_space(static_cast<unsigned char>(text[at]))) ++at;
  };
  at += 2;
  sign = at < text.size() && (text[at] == '-' || text[at] == '+') ? text[at++] : '\0';
  space();
  if (!text.substr(std::min(at, text.size())).starts_with("endraw")) return std::nullopt;
  at += 6;
  space();
  const std::string_view rest = text.substr(std::min(at, text.size()));
  if (rest.starts_with("+%}")) return at + 3;
  if (rest.starts_with("-%}")) {
    at += 3;
    space();
    return at;
  }
  if (!rest.starts_with("%}")) return std::nullopt;
  return at + (rest.starts_with("%}\n") ? 3 : 2);
}

Status Lexer::lex_raw(std::size_t body) {
  const bool starts_line = source_[body - 1] == '\n';
  move_to(body);
  line_starting_ = starts_line;
  for (std::size_t at = source_.find("{%", body); at != std::string::npos;
       at = source_.find("{%", at + 1)) {
    char sign = '\0';
    const auto end = match_endraw(at, sign);
    if (!end) continue;
    add_data(std::string_view(source_).substr(body, at - body), sign, true);
    move_to(*end);
    return {};
  }
  return error("missing end of raw directive");
}

Status Lexer::lex_comment() {
  for (std::size_t at = source_.find("#}", at_ + 2); at != std::string::npos;
       at = source_.find("#}", at + 1)) {
    const char before = at > at_ + 2 ? source_[at - 1] : '\0';
    move_to(at + 2);
    if (before == '-') {
      skip_space();
    } else if (before != '+' && peek() == '\n') {
      move_to(at_ + 1);
    }
    return {};
  }
  return error("missing end of comment tag");
}

Status Lexer::lex_root() {
  const std::string_view text = source_;
  std::size_t tag = at_;
  for (;; ++tag) {
    tag = text.find('{', tag);
    if (tag == std::string_view::npos || tag + 1 >= text.size()) {
      if (at_ < text.size()) add(TokenKind::data).text = std::string(text.substr(at_));
      move_to(text.size());
      return {};
    }
    if (text[tag + 1] == '%' || text[tag + 1] == '{' || text[tag + 1] == '#') break;
  }
  const char type = text[tag + 1];
  char sign = tag + 2 < text.size() ? text[tag + 2] : '\0';
  if (sign != '-' && sign != '+') sign = '\0';
  add_data(text.substr(at_, tag - at_), sign, type != '{');
  if (type == '%') {
    if (const auto raw = match_raw(tag)) {
      place(tag);
      return lex_raw(*raw);
    }
  }
  move_to(tag);
  if (type == '#') return lex_comment();
  add(type == '{' ? TokenKind::variable_begin : TokenKind::block_begin);
  move_to(at_ + (sign == '\0' ? 2U : 3U));
  return lex_tag(type == '{');
}

// Steps over the end of the tag, if it is here.
bool Lexer::match_end(bool variable) {
  if (!open_.empty()) return false;
  const std::string_view closing = variable ? "}}" : "%}";
  const bool minus =
      peek() == '-' && std::string_view(source_).substr(at_ + 1).starts_with(closing);
  const bool plus =
      !variable && peek() == '+' && std::string_view(source_).substr(at_ + 1).starts_with(closing);
  if (!minus && !plus && !starts(closing)) return false;
  add(variable ? TokenKind::variable_end : TokenKind::block_end);
  move_to(at_ + (minus || plus ? 3U : 2U));
  if (minus) {
    skip_space();
  } else if (!variable && !plus && peek() == '\n') {
    move_to(at_ + 1);
  }
  return true;
}

Status Lexer::lex_tag(bool variable) {
  while (true) {
    skip_space();
    if (at_ >= source_.size()) return error("the template ends inside a tag");
    if (match_end(variable)) return {};
    ORRERY_TRY_VOID(lex_token());
  }
}

Status Lexer::lex_token() {
  const char c = peek();
  if (is_ascii_digit(c)) return lex_number();
  if (c == '\'' || c == '"') return lex_string();
  const Character character = character_at(source_, at_);
  if (character.valid && is_word(character.code)) return lex_name();
  return lex_operator();
}

Status Lexer::lex_name() {
  std::size_t end = at_;
  while (end < source_.size()) {
    const Character character = character_at(source_, end);
    if (!character.valid || !is_word(character.code)) break;
    end += character.length;
  }
  add(TokenKind::name).text = source_.substr(at_, end - at_);
  move_to(end);
  return {};
}

Status Lexer::lex_number() {
  std::size_t end = at_;
  std::string digits;
  int base = 10;
  const auto take = [&](auto accept) {
    while (end < source_.size() && (accept(source_[end]) || source_[end] == '_')) {
      if (source_[end] != '_') digits += source_[end];
      ++end;
    }
  };
  const char second = static_cast<char>(peek(1) | 0x20);
  if (peek() == '0' && (second == 'x' || second == 'o' || second == 'b')) {
    base = second == 'x' ? 16 : second == 'o' ? 8 : 2;
    end += 2;
    take([](char c) { return is_ascii_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); });
  } else {
    take(is_ascii_digit);
  }
  bool real = false;
  const bool member = at_ > 0 && source_[at_ - 1] == '.';  // x.0.1 is two subscripts
  if (member) base = 0;
  const auto digit_at = [&](std::size_t at) {
    return at < source_.size() && is_ascii_digit(source_[at]);
  };
  if (base == 10 && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
    real = true;
    digits += source_[end++];
    take(is_ascii_digit);
  }
  if (base == 10 && end < source_.size() && (source_[end] | 0x20) == 'e') {
    const bool sign =
        end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-');
    if (digit_at(end + (sign ? 2 : 1))) {
      real = true;
      digits += 'e';
      if (sign && source_[end + 1] == '-') digits += '-';
      end += sign ? 2 : 1;
      take(is_ascii_digit);
    }
  }
  Token& token = add(real ? TokenKind::real : TokenKind::integer);
  const char* last = digits.data() + digits.size();
  const auto parsed =
      real ? std::from_chars(digits.data(), last, token.real)
           : std::from_chars(digits.data(), last, token.integer, base == 0 ? 10 : base);
  if (parsed.ec != std::errc{} || parsed.ptr != last) return error("a number out of range");
  move_to(end);
  return {};
}

// The escapes of Python's string literals.
bool unescape(std::string_view raw, std::string& out) {
  constexpr std::string_view kPlain = "\\'\"abfnrtv";
  constexpr std::string_view kMeaning = "\\'\"\a\b\f\n\r\t\v";
  for (std::size_t at = 0; at < raw.size(); ++at) {
    if (raw[at] != '\\' || at + 1 >= raw.size()) {
      out += raw[at];
      continue;
    }
    const char c = raw[++at];
    if (c == '\n') continue;
    if (const std::size_t plain = kPlain.find(c); plain != std::string_view::npos) {
      out += kMeaning[plain];
    } else if (c == 'x' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
      const bool octal = c >= '0' && c <= '7';
      const std::size_t begin = octal ? at : at + 1;
      std::size_t length = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 1;
      while (octal && length < 3 && begin + length < raw.size() && raw[begin + length] >= '0' &&
             raw[begin + length] <= '7') {
        ++length;
      }
      if (begin + length > raw.size()) return false;
      std::uint32_t code = 0;
      const char* last = raw.data() + begin + length;
      const auto parsed = std::from_chars(raw.data() + begin, last, code, octal ? 8 : 16);
      if (parsed.ec != std::errc{} || parsed.ptr != last || code > 0x10ffff) return false;
      if (code >= 0xd800 && code < 0xe000) return false;  // a lone surrogate has no UTF-8
      append_utf8(out, static_cast<std::int32_t>(code));
      at = begin + length - 1;
    } else if (c == 'N') {
      return false;
    } else {
      out += '\\';
      out += c;
    }
  }
  return true;
}

Status Lexer::lex_string() {
  const char quote = peek();
  std::size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) return error("a string without its end");
  Token& token = add(TokenKind::string);
  if (!unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1), token.text)) {
    return error("a string with a broken escape");
  }
  move_to(end + 1);
  return {};
}

Status Lexer::balance(char op) {
  switch (op) {
    case '(':
      open_ += ')';
      break;
    case '[':
      open_ += ']';
      break;
    case '{':
      open_ += '}';
      break;
    case ')':
    case ']':
    case '}':
      if (open_.empty() || open_.back() != op) return error("a closing bracket without its start");
      open_.pop_back();
      break;
    default:
      break;
  }
  return {};
}

Status Lexer::lex_operator() {
  static constexpr std::array<std::string_view, 26> kOperators{
      "**", "//", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "(",
      ")",  "[",  "]",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
  for (const std::string_view op : kOperators) {
    if (!starts(op)) continue;
    ORRERY_TRY_VOID(balance(op.size() == 1 ? op[0] : '\0'));
    add(TokenKind::op).text = std::string(op);
    move_to(at_ + op.size());
    return {};
  }
  return error("a character that means nothing here");
}

Result<std::vector<Token>> Lexer::run() {
  while (at_ < source_.size()) ORRERY_TRY_VOID(lex_root());
  add(TokenKind::end);
  return std::move(tokens_);
}

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace orrery::text::jinja
