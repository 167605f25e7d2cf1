// Source of a template -> tokens, with the white space control of jinja2 under trim_blocks and
// lstrip_blocks: a line break after a block or comment is dropped, and so is the indentation before
// one that starts its line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace orrery::text::jinja {

enum class TokenKind : std::uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  op,  // text holds the operator
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::uint32_t line = 1;
  std::uint32_t column = 1;  // bytes from the start of the line, from 1
  std::string text;          // data, names, strings (unescaped), operators
  std::int64_t integer = 0;
  double real = 0;

  bool is_op(std::string_view which) const { return kind == TokenKind::op && text == which; }
  bool is_name(std::string_view which) const { return kind == TokenKind::name && text == which; }
};

// The last token is always `end`. E_TEMPLATE names line and column.
Result<std::vector<Token>> tokenize(std::string_view source);

[[nodiscard]] std::unexpected<Error> fail_template(std::uint32_t line, std::uint32_t column,
                                                   std::string_view what);

}  // namespace orrery::text::jinja
