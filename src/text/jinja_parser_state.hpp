// The parser, split over jinja_parser.cpp (statements) and jinja_parser_expr.cpp (expressions).
// Faults travel as SyntaxError and become values where parse() ends.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja_ast.hpp"
#include "text/jinja_lexer.hpp"

namespace orrery::text::jinja {

struct SyntaxError {
  std::uint32_t line;
  std::uint32_t column;
  std::string message;
};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Program run();

 private:
  using Words = std::initializer_list<std::string_view>;
  using MutableExpr = std::unique_ptr<Expr>;
  using MutableStmt = std::unique_ptr<Stmt>;

  // Filters and tests that do not exist are faults of the source, except in a branch or in a
  // condition, where jinja2 complains only when one is reached.
  struct UnknownName {
    std::uint32_t line;
    std::uint32_t column;
    std::string message;
  };
  class UnknownScope;
  class Nesting;
  // What the parameters caller, kwargs and varargs are looked up in while a macro's body is parsed.
  struct MacroUse {
    bool caller = false;
    bool kwargs = false;
    bool varargs = false;
  };

  // Statements.
  Body parse_until(Words ends);
  MutableStmt parse_statement();
  Body parse_body(Words ends);
  MutableStmt parse_set();
  MutableStmt parse_for();
  MutableStmt parse_if();
  MutableStmt parse_macro();
  MutableStmt parse_call_block();
  MutableStmt parse_filter_block();
  MutableStmt parse_with();
  MutableStmt parse_scope();
  MutableStmt parse_loop_control();
  MutableStmt parse_print();
  void parse_signature(Signature& signature);
  Body parse_macro_body(std::string_view end, Signature& signature);
  Target parse_target(Words ends, bool attributes);
  Target parse_single_target(bool attributes);

  // Expressions.
  MutableExpr parse_expression(bool condition = true);
  MutableExpr parse_condition();
  MutableExpr parse_or();
  MutableExpr parse_and();
  MutableExpr parse_not();
  MutableExpr parse_compare();
  bool parse_compare_op(Op& op);
  MutableExpr parse_sum();
  MutableExpr parse_concat();
  MutableExpr parse_product();
  MutableExpr parse_power();
  MutableExpr parse_unary(bool with_filter = true);
  MutableExpr parse_primary();
  MutableExpr parse_name();
  MutableExpr parse_list();
  MutableExpr parse_dict();
  MutableExpr parse_tuple(bool condition, bool parentheses, Words ends = {});
  MutableExpr parse_postfix(MutableExpr value);
  MutableExpr parse_filters(MutableExpr value);
  MutableExpr parse_subscript(MutableExpr value);
  MutableExpr parse_item(MutableExpr value);
  MutableExpr parse_call(MutableExpr callee);
  MutableExpr parse_filter(MutableExpr value);
  MutableExpr parse_filter_chain(bool inline_start);
  MutableExpr parse_test(MutableExpr value);
  std::unique_ptr<Arguments> parse_arguments();
  MutableExpr parse_binary(Op op, MutableExpr left, MutableExpr right);

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  const Token& expect(TokenKind kind, std::string_view what);
  bool at_any(Words names) const;
  [[noreturn]] void error(std::string message) const;

  MutableExpr make(ExprKind kind, std::uint32_t line);
  void adopt(Expr& parent, MutableExpr child);
  MutableStmt make_stmt(StmtKind kind);
  void count_node();
  NameId intern(const std::string& name);
  void note_use(std::string_view name);
  void note_unknown(std::string_view what, const Token& token);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::size_t nodes_ = 0;
  std::uint32_t nesting_ = 0;
  std::uint32_t loops_ = 0;  // loops around, within the same macro
  std::vector<MacroUse> macros_;
  std::vector<UnknownName> unknown_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, NameId> name_ids_;
};

// Counts one level of nesting for as long as it lives.
class Parser::Nesting {
 public:
  explicit Nesting(Parser& parser);
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Parser& parser_;
};

}  // namespace orrery::text::jinja
