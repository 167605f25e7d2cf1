#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja_builtins.hpp"
#include "text/jinja_parser_state.hpp"

namespace orrery::text::jinja {

namespace {
constexpr std::uint32_t kMaxHeight = 400;
constexpr std::uint32_t kMaxNesting = 128;
}  // namespace

Parser::Nesting::Nesting(Parser& parser) : parser_(parser) {
  if (parser_.nesting_ >= kMaxNesting) parser_.error("nested more than 128 levels deep");
  ++parser_.nesting_;
}

Parser::MutableExpr Parser::make(ExprKind kind, std::uint32_t line) {
  count_node();
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

void Parser::adopt(Expr& parent, MutableExpr child) {
  if (child != nullptr) {
    parent.height = std::max(parent.height, child->height + 1);
    if (parent.height > kMaxHeight) error("an expression with too many parts");
  }
  parent.items.push_back(std::move(child));
}

Parser::MutableExpr Parser::parse_binary(Op op, MutableExpr left, MutableExpr right) {
  MutableExpr expr = make(ExprKind::binary, left->line);
  expr->op = op;
  adopt(*expr, std::move(left));
  adopt(*expr, std::move(right));
  return expr;
}

Parser::MutableExpr Parser::parse_expression(bool condition) {
  const Nesting level(*this);
  return condition ? parse_condition() : parse_or();
}

Parser::MutableExpr Parser::parse_condition() {
  const std::size_t unknown = unknown_.size();
  MutableExpr value = parse_or();
  while (skip_name("if")) {
    MutableExpr expr = make(ExprKind::condition, value->line);
    adopt(*expr, parse_or());
    adopt(*expr, std::move(value));
    adopt(*expr, skip_name("else") ? parse_expression() : nullptr);
    value = std::move(expr);
    unknown_.resize(unknown);
  }
  return value;
}

Parser::MutableExpr Parser::parse_or() {
  MutableExpr left = parse_and();
  while (skip_name("or")) left = parse_binary(Op::logical_or, std::move(left), parse_and());
  return left;
}

Parser::MutableExpr Parser::parse_and() {
  MutableExpr left = parse_not();
  while (skip_name("and")) left = parse_binary(Op::logical_and, std::move(left), parse_not());
  return left;
}

Parser::MutableExpr Parser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const Nesting level(*this);
  MutableExpr expr = make(ExprKind::unary, next().line);
  expr->op = Op::logical_not;
  adopt(*expr, parse_not());
  return expr;
}

bool Parser::parse_compare_op(Op& op) {
  static constexpr std::array<std::pair<std::string_view, Op>, 6> kOps{{{"==", Op::equal},
                                                                        {"!=", Op::not_equal},
                                                                        {"<", Op::less},
                                                                        {"<=", Op::less_equal},
                                                                        {">", Op::greater},
                                                                        {">=", Op::greater_equal}}};
  for (const auto& [text, which] : kOps) {
    if (!skip_op(text)) continue;
    op = which;
    return true;
  }
  if (skip_name("in")) {
    op = Op::in;
    return true;
  }
  if (current().is_name("not") && ahead().is_name("in")) {
    next();
    next();
    op = Op::not_in;
    return true;
  }
  return false;
}

Parser::MutableExpr Parser::parse_compare() {
  MutableExpr left = parse_sum();
  Op op = Op::equal;
  if (!parse_compare_op(op)) return left;
  MutableExpr expr = make(ExprKind::compare, left->line);
  adopt(*expr, std::move(left));
  do {
    expr->ops.push_back(op);
    adopt(*expr, parse_sum());
  } while (parse_compare_op(op));
  return expr;
}

Parser::MutableExpr Parser::parse_sum() {
  MutableExpr left = parse_concat();
  while (true) {
    if (skip_op("+")) {
      left = parse_binary(Op::add, std::move(left), parse_concat());
    } else if (skip_op("-")) {
      left = parse_binary(Op::subtract, std::move(left), parse_concat());
    } else {
      return left;
    }
  }
}

Parser::MutableExpr Parser::parse_concat() {
  MutableExpr first = parse_product();
  if (!current().is_op("~")) return first;
  MutableExpr expr = make(ExprKind::concat, first->line);
  adopt(*expr, std::move(first));
  while (skip_op("~")) adopt(*expr, parse_product());
  return expr;
}

Parser::MutableExpr Parser::parse_product() {
  static constexpr std::array<std::pair<std::string_view, Op>, 4> kOps{
      {{"*", Op::multiply}, {"/", Op::divide}, {"//", Op::floor_divide}, {"%", Op::modulo}}};
  MutableExpr left = parse_power();
  while (true) {
    const auto found = std::find_if(kOps.begin(), kOps.end(),
                                    [&](const auto& op) { return current().is_op(op.first); });
    if (found == kOps.end()) return left;
    next();
    left = parse_binary(found->second, std::move(left), parse_power());
  }
}

Parser::MutableExpr Parser::parse_power() {
  MutableExpr left = parse_unary();
  while (skip_op("**")) left = parse_binary(Op::power, std::move(left), parse_unary());
  return left;
}

Parser::MutableExpr Parser::parse_unary(bool with_filter) {
  MutableExpr value;
  if (current().is_op("-") || current().is_op("+")) {
    const Nesting level(*this);
    value = make(ExprKind::unary, current().line);
    value->op = next().text == "-" ? Op::negative : Op::positive;
    adopt(*value, parse_unary(false));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filter ? parse_filters(std::move(value)) : std::move(value);
}

Parser::MutableExpr Parser::parse_name() {
  const Token& token = next();
  const std::string& name = token.text;
  MutableExpr expr = make(ExprKind::constant, token.line);
  if (name == "true" || name == "True") {
    expr->constant = Value::of_bool(true);
  } else if (name == "false" || name == "False") {
    expr->constant = Value::of_bool(false);
  } else if (name == "none" || name == "None") {
    expr->constant = Value::none();
  } else {
    expr->kind = ExprKind::name;
    expr->name = intern(name);
    note_use(name);
  }
  return expr;
}

Parser::MutableExpr Parser::parse_primary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::name:
      return parse_name();
    case TokenKind::string: {
      std::string text;
      while (current().kind == TokenKind::string) text += next().text;
      MutableExpr expr = make(ExprKind::constant, token.line);
      expr->constant = constant_string(std::move(text));
      return expr;
    }
    case TokenKind::integer:
    case TokenKind::real: {
      MutableExpr expr = make(ExprKind::constant, next().line);
      expr->constant = token.kind == TokenKind::integer ? Value::of_int(token.integer)
                                                        : Value::of_real(token.real);
      return expr;
    }
    default:
      break;
  }
  if (skip_op("(")) {
    MutableExpr expr = parse_tuple(true, true);
    expect_op(")");
    return expr;
  }
  if (token.is_op("[")) return parse_list();
  if (token.is_op("{")) return parse_dict();
  error("an expression is missing here");
}

Parser::MutableExpr Parser::parse_list() {
  MutableExpr list = make(ExprKind::list, next().line);
  while (!current().is_op("]")) {
    if (!list->items.empty()) expect_op(",");
    if (current().is_op("]")) break;
    adopt(*list, parse_expression());
  }
  expect_op("]");
  return list;
}

Parser::MutableExpr Parser::parse_dict() {
  MutableExpr dict = make(ExprKind::dict, next().line);
  while (!current().is_op("}")) {
    if (!dict->items.empty()) expect_op(",");
    if (current().is_op("}")) break;
    adopt(*dict, parse_expression());
    expect_op(":");
    adopt(*dict, parse_expression());
  }
  expect_op("}");
  return dict;
}

Parser::MutableExpr Parser::parse_tuple(bool condition, bool parentheses, Words ends) {
  const std::uint32_t line = current().line;
  std::vector<MutableExpr> parts;
  bool is_tuple = false;
  const auto at_end = [&] {
    const TokenKind kind = current().kind;
    return kind == TokenKind::variable_end || kind == TokenKind::block_end ||
           current().is_op(")") || at_any(ends);
  };
  while (true) {
    if (!parts.empty()) expect_op(",");
    if (at_end()) break;
    parts.push_back(parse_expression(condition));
    if (!current().is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !parts.empty()) return std::move(parts[0]);
  if (!is_tuple && !parentheses) error("an expression is missing here");
  MutableExpr tuple = make(ExprKind::tuple, line);
  for (MutableExpr& part : parts) adopt(*tuple, std::move(part));
  return tuple;
}

Parser::MutableExpr Parser::parse_postfix(MutableExpr value) {
  while (true) {
    if (current().is_op(".") || current().is_op("[")) {
      value = parse_subscript(std::move(value));
    } else if (current().is_op("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

Parser::MutableExpr Parser::parse_filters(MutableExpr value) {
  while (true) {
    if (current().is_op("|")) {
      next();
      value = parse_filter(std::move(value));
    } else if (current().is_name("is")) {
      value = parse_test(std::move(value));
    } else if (current().is_op("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

Parser::MutableExpr Parser::parse_subscript(MutableExpr value) {
  const Token& token = next();
  if (token.text == "[") return parse_item(std::move(value));
  const Token& member = next();
  if (member.kind == TokenKind::name) {
    MutableExpr expr = make(ExprKind::attribute, token.line);
    expr->name = intern(member.text);
    expr->constant = constant_string(member.text);
    adopt(*expr, std::move(value));
    return expr;
  }
  if (member.kind != TokenKind::integer) error("a name or a number is missing after the dot");
  MutableExpr index = make(ExprKind::constant, member.line);
  index->constant = Value::of_int(member.integer);
  MutableExpr expr = make(ExprKind::item, token.line);
  adopt(*expr, std::move(value));
  adopt(*expr, std::move(index));
  return expr;
}

Parser::MutableExpr Parser::parse_item(MutableExpr value) {
  const auto at_end = [&] { return current().is_op("]") || current().is_op(","); };
  MutableExpr expr = make(ExprKind::item, value->line);
  adopt(*expr, std::move(value));
  MutableExpr first = current().is_op(":") ? nullptr : parse_expression();
  if (skip_op(":")) {
    expr->kind = ExprKind::slice;
    adopt(*expr, std::move(first));
    adopt(*expr, current().is_op(":") || at_end() ? nullptr : parse_expression());
    const bool stepped = skip_op(":");
    adopt(*expr, !stepped || at_end() ? nullptr : parse_expression());
  } else if (current().is_op(",")) {
    MutableExpr tuple = make(ExprKind::tuple, expr->line);
    adopt(*tuple, std::move(first));
    while (skip_op(",")) adopt(*tuple, parse_expression());
    adopt(*expr, std::move(tuple));
  } else {
    adopt(*expr, std::move(first));
  }
  expect_op("]");
  return expr;
}

std::unique_ptr<Arguments> Parser::parse_arguments() {
  expect_op("(");
  auto arguments = std::make_unique<Arguments>();
  bool first = true;
  while (!current().is_op(")")) {
    if (!first) {
      expect_op(",");
      if (current().is_op(")")) break;
    }
    first = false;
    const bool spread = arguments->spread_list != nullptr || arguments->spread_dict != nullptr;
    if (current().is_op("*") && !spread) {
      next();
      arguments->spread_list = parse_expression();
    } else if (current().is_op("**") && arguments->spread_dict == nullptr) {
      next();
      arguments->spread_dict = parse_expression();
    } else if (current().kind == TokenKind::name && ahead().is_op("=") &&
               arguments->spread_dict == nullptr) {
      std::string name = next().text;
      next();
      for (const auto& [known, value] : arguments->named) {
        if (known == name) error("the argument '" + name + "' is given twice");
      }
      arguments->named.emplace_back(std::move(name), parse_expression());
    } else if (!spread && arguments->named.empty()) {
      arguments->positional.push_back(parse_expression());
    } else {
      error("an argument by position cannot follow this one");
    }
  }
  expect_op(")");
  return arguments;
}

Parser::MutableExpr Parser::parse_call(MutableExpr callee) {
  MutableExpr expr = make(ExprKind::call, callee->line);
  adopt(*expr, std::move(callee));
  expr->arguments = parse_arguments();
  return expr;
}

Parser::MutableExpr Parser::parse_filter(MutableExpr value) {
  const Token& token = expect(TokenKind::name, "the name of a filter is missing");
  MutableExpr expr = make(ExprKind::filter, token.line);
  expr->name = intern(token.text);
  expr->filter = find_filter(token.text);
  if (expr->filter == nullptr) note_unknown("there is no filter '" + token.text + "'", token);
  adopt(*expr, std::move(value));
  if (current().is_op("(")) expr->arguments = parse_arguments();
  return expr;
}

// The filters of a block: {% set x | trim %}, {% filter upper | trim %}.
Parser::MutableExpr Parser::parse_filter_chain(bool inline_start) {
  MutableExpr value;
  if (inline_start) value = parse_filter(nullptr);
  while (skip_op("|")) value = parse_filter(std::move(value));
  return value;
}

Parser::MutableExpr Parser::parse_test(MutableExpr value) {
  const std::uint32_t line = next().line;
  const bool negated = skip_name("not");
  const Token& token = expect(TokenKind::name, "the name of a test is missing");
  MutableExpr expr = make(ExprKind::test, line);
  expr->name = intern(token.text);
  expr->test = find_test(token.text);
  if (expr->test == nullptr) note_unknown("there is no test '" + token.text + "'", token);
  adopt(*expr, std::move(value));
  const TokenKind kind = current().kind;
  const bool operand = kind == TokenKind::name || kind == TokenKind::string ||
                       kind == TokenKind::integer || kind == TokenKind::real ||
                       current().is_op("[") || current().is_op("{");
  if (current().is_op("(")) {
    expr->arguments = parse_arguments();
  } else if (operand && !at_any({"else", "or", "and"})) {
    if (current().is_name("is")) error("tests cannot be chained with is");
    auto arguments = std::make_unique<Arguments>();
    arguments->positional.push_back(parse_postfix(parse_primary()));
    expr->arguments = std::move(arguments);
  }
  if (!negated) return expr;
  MutableExpr inverse = make(ExprKind::unary, line);
  inverse->op = Op::logical_not;
  adopt(*inverse, std::move(expr));
  return inverse;
}

}  // namespace orrery::text::jinja
