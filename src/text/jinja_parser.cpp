#include "text/jinja_parser.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja_parser_state.hpp"

namespace orrery::text::jinja {

namespace {
constexpr std::size_t kMaxSourceBytes = 1U << 20;
constexpr std::size_t kMaxNodes = 100'000;
}  // namespace

// Tokens ----------------------------------------------------------------------------------------

void Parser::error(std::string message) const {
  throw SyntaxError{current().line, current().column, std::move(message)};
}

bool Parser::skip_op(std::string_view op) {
  if (!current().is_op(op)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) error("'" + std::string(op) + "' is missing here");
}

const Token& Parser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) error(std::string(what));
  return next();
}

bool Parser::at_any(Words names) const {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return current().is_name(name); });
}

// Book-keeping ----------------------------------------------------------------------------------

void Parser::count_node() {
  if (++nodes_ > kMaxNodes) error("the template has more than 100000 nodes");
}

Parser::MutableStmt Parser::make_stmt(StmtKind kind) {
  count_node();
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->line = current().line;
  return stmt;
}

NameId Parser::intern(const std::string& name) {
  const auto [found, added] = name_ids_.try_emplace(name, static_cast<NameId>(names_.size()));
  if (added) names_.push_back(name);
  return found->second;
}

void Parser::note_use(std::string_view name) {
  for (MacroUse& use : macros_) {
    use.caller |= name == "caller";
    use.kwargs |= name == "kwargs";
    use.varargs |= name == "varargs";
  }
}

void Parser::note_unknown(std::string_view what, const Token& token) {
  unknown_.push_back({token.line, token.column, std::string(what)});
}

// Unknown filters and tests noted in a scope are faults at its end.
class Parser::UnknownScope {
 public:
  explicit UnknownScope(Parser& parser) : parser_(parser), mark_(parser.unknown_.size()) {}
  void fail_if_any() const {
    if (parser_.unknown_.size() <= mark_) return;
    const UnknownName& first = parser_.unknown_[mark_];
    throw SyntaxError{first.line, first.column, first.message};
  }
  void forget() { parser_.unknown_.resize(mark_); }

 private:
  Parser& parser_;
  std::size_t mark_;
};

// Statements ------------------------------------------------------------------------------------

Program Parser::run() {
  const UnknownScope unknown(*this);
  Program program;
  program.loop_name = intern("loop");
  program.caller_name = intern("caller");
  program.kwargs_name = intern("kwargs");
  program.varargs_name = intern("varargs");
  program.body = parse_until({});
  unknown.fail_if_any();
  program.names = std::move(names_);
  return program;
}

// Parses up to (not over) a tag that starts with one of `ends`; without ends, to the end.
Body Parser::parse_until(Words ends) {
  const Nesting level(*this);
  Body body;
  while (true) {
    const Token& token = current();
    if (token.kind == TokenKind::end) {
      if (ends.size() != 0) error("the template ends before '" + std::string(*ends.begin()) + "'");
      return body;
    }
    if (token.kind == TokenKind::data) {
      MutableStmt data = make_stmt(StmtKind::data);
      data->text = constant_string(next().text);
      body.push_back(std::move(data));
    } else if (token.kind == TokenKind::variable_begin) {
      next();
      MutableStmt output = make_stmt(StmtKind::output);
      output->value = parse_tuple(true, false);
      expect(TokenKind::variable_end, "'}}' is missing here");
      body.push_back(std::move(output));
    } else {
      expect(TokenKind::block_begin, "a tag is missing here");
      if (at_any(ends)) return body;
      body.push_back(parse_statement());
      expect(TokenKind::block_end, "'%}' is missing here");
    }
  }
}

Body Parser::parse_body(Words ends) {
  skip_op(":");
  expect(TokenKind::block_end, "'%}' is missing here");
  return parse_until(ends);
}

Parser::MutableStmt Parser::parse_statement() {
  static constexpr std::array<std::pair<std::string_view, MutableStmt (Parser::*)()>, 12> kTags{
      {{"set", &Parser::parse_set},
       {"for", &Parser::parse_for},
       {"if", &Parser::parse_if},
       {"macro", &Parser::parse_macro},
       {"call", &Parser::parse_call_block},
       {"filter", &Parser::parse_filter_block},
       {"with", &Parser::parse_with},
       {"generation", &Parser::parse_scope},
       {"block", &Parser::parse_scope},
       {"break", &Parser::parse_loop_control},
       {"continue", &Parser::parse_loop_control},
       {"print", &Parser::parse_print}}};
  if (current().kind != TokenKind::name) error("the name of a tag is missing");
  for (const auto& [name, parse_tag] : kTags) {
    if (current().is_name(name)) return (this->*parse_tag)();
  }
  error("unknown tag '" + current().text + "'");
}

Target Parser::parse_single_target(bool attributes) {
  if (skip_op("(")) {
    Target inner = parse_target({}, attributes);
    expect_op(")");
    return inner;
  }
  const Token& token = expect(TokenKind::name, "a name to assign to is missing");
  static constexpr std::array<std::string_view, 6> kReserved{"true", "false", "none",
                                                             "True", "False", "None"};
  if (std::find(kReserved.begin(), kReserved.end(), token.text) != kReserved.end()) {
    error("cannot assign to '" + token.text + "'");
  }
  Target target;
  target.name = intern(token.text);
  if (attributes && skip_op(".")) {
    target.attribute = expect(TokenKind::name, "a name is missing after the dot").text;
  }
  return target;
}

Target Parser::parse_target(Words ends, bool attributes) {
  const Nesting level(*this);
  Target tuple;
  tuple.is_tuple = true;
  bool comma = false;
  while (true) {
    const TokenKind kind = current().kind;
    if (kind == TokenKind::block_end || current().is_op(")") || at_any(ends)) break;
    count_node();
    tuple.parts.push_back(parse_single_target(attributes));
    if (!skip_op(",")) break;
    comma = true;
  }
  if (tuple.parts.empty()) error("a name to assign to is missing");
  if (comma) return tuple;
  Target only = std::move(tuple.parts[0]);
  return only;
}

Parser::MutableStmt Parser::parse_set() {
  MutableStmt stmt = make_stmt(StmtKind::assign);
  next();
  stmt->target = parse_target({}, true);
  if (skip_op("=")) {
    stmt->value = parse_tuple(true, false);
    return stmt;
  }
  stmt->kind = StmtKind::assign_block;
  stmt->value = parse_filter_chain(false);
  const UnknownScope unknown(*this);
  stmt->body = parse_body({"endset"});
  unknown.fail_if_any();
  next();
  return stmt;
}

Parser::MutableStmt Parser::parse_for() {
  MutableStmt stmt = make_stmt(StmtKind::loop);
  next();
  stmt->target = parse_target({"in"}, false);
  if (!skip_name("in")) error("'in' is missing here");
  stmt->value = parse_tuple(false, false, {"recursive"});
  if (skip_name("if")) stmt->test = parse_expression();
  stmt->recursive = skip_name("recursive");
  const UnknownScope unknown(*this);
  ++loops_;
  stmt->body = parse_body({"endfor", "else"});
  --loops_;
  if (next().text == "else") {
    stmt->other = parse_body({"endfor"});
    next();
  }
  unknown.fail_if_any();
  return stmt;
}

Parser::MutableStmt Parser::parse_if() {
  UnknownScope unknown(*this);
  MutableStmt stmt = make_stmt(StmtKind::branch);
  bool more = true;
  while (more) {
    next();  // if, elif
    Branch branch;
    branch.test = parse_tuple(false, false);
    branch.body = parse_body({"elif", "else", "endif"});
    stmt->branches.push_back(std::move(branch));
    more = current().is_name("elif");
  }
  if (next().text == "else") {
    stmt->other = parse_body({"endif"});
    next();
  }
  unknown.forget();
  return stmt;
}

void Parser::parse_signature(Signature& signature) {
  expect_op("(");
  while (!current().is_op(")")) {
    if (!signature.parameters.empty()) expect_op(",");
    signature.parameters.push_back(parse_single_target(false).name);
    if (skip_op("=")) {
      signature.defaults.push_back(parse_expression());
    } else if (!signature.defaults.empty()) {
      error("a parameter without a default follows one with a default");
    }
  }
  expect_op(")");
}

Body Parser::parse_macro_body(std::string_view end, Signature& signature) {
  const UnknownScope unknown(*this);
  macros_.emplace_back();
  const std::uint32_t loops = std::exchange(loops_, 0U);
  Body body = parse_body({end});
  loops_ = loops;
  signature.uses_caller = macros_.back().caller;
  signature.uses_kwargs = macros_.back().kwargs;
  signature.uses_varargs = macros_.back().varargs;
  macros_.pop_back();
  unknown.fail_if_any();
  next();
  return body;
}

Parser::MutableStmt Parser::parse_macro() {
  MutableStmt stmt = make_stmt(StmtKind::macro);
  next();
  stmt->name = parse_single_target(false).name;
  auto signature = std::make_unique<Signature>();
  parse_signature(*signature);
  stmt->body = parse_macro_body("endmacro", *signature);
  stmt->signature = std::move(signature);
  return stmt;
}

Parser::MutableStmt Parser::parse_call_block() {
  MutableStmt stmt = make_stmt(StmtKind::call_block);
  next();
  auto signature = std::make_unique<Signature>();
  if (current().is_op("(")) parse_signature(*signature);
  stmt->value = parse_expression();
  if (stmt->value->kind != ExprKind::call) error("a call is missing here");
  stmt->body = parse_macro_body("endcall", *signature);
  stmt->signature = std::move(signature);
  return stmt;
}

Parser::MutableStmt Parser::parse_filter_block() {
  MutableStmt stmt = make_stmt(StmtKind::filter_block);
  next();
  stmt->value = parse_filter_chain(true);
  const UnknownScope unknown(*this);
  stmt->body = parse_body({"endfilter"});
  unknown.fail_if_any();
  next();
  return stmt;
}

Parser::MutableStmt Parser::parse_with() {
  MutableStmt stmt = make_stmt(StmtKind::scope);
  next();
  while (current().kind != TokenKind::block_end) {
    if (!stmt->assignments.empty()) expect_op(",");
    Target target = parse_target({}, false);
    expect_op("=");
    stmt->assignments.emplace_back(std::move(target), parse_expression());
  }
  const UnknownScope unknown(*this);
  stmt->body = parse_body({"endwith"});
  unknown.fail_if_any();
  next();
  return stmt;
}

// {% generation %} marks what the assistant says, for training; {% block %} could be overridden by
// another template, which there never is. Both only render their body.
Parser::MutableStmt Parser::parse_scope() {
  MutableStmt stmt = make_stmt(StmtKind::scope);
  const UnknownScope unknown(*this);
  const std::uint32_t loops = std::exchange(loops_, 0U);
  if (next().text == "generation") {
    stmt->body = parse_body({"endgeneration"});
    next();
  } else {
    const std::string name = expect(TokenKind::name, "the name of a block is missing").text;
    skip_name("scoped");
    skip_name("required");
    stmt->body = parse_body({"endblock"});
    next();
    skip_name(name);
  }
  loops_ = loops;
  unknown.fail_if_any();
  return stmt;
}

Parser::MutableStmt Parser::parse_loop_control() {
  if (loops_ == 0) error("'" + current().text + "' outside of a loop");
  const bool is_break = current().text == "break";
  MutableStmt stmt = make_stmt(is_break ? StmtKind::break_loop : StmtKind::continue_loop);
  next();
  return stmt;
}

Parser::MutableStmt Parser::parse_print() {
  MutableStmt stmt = make_stmt(StmtKind::output);
  MutableExpr all = make(ExprKind::concat, next().line);
  while (current().kind != TokenKind::block_end) {
    if (!all->items.empty()) expect_op(",");
    adopt(*all, parse_expression());
  }
  stmt->value = std::move(all);
  return stmt;
}

Result<std::shared_ptr<const Program>> parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return fail("E_TEMPLATE", "chat template: " + std::to_string(source.size()) +
                                  " bytes of source, more than 1 MiB");
  }
  ORRERY_TRY(auto tokens, tokenize(source));
  try {
    return std::make_shared<const Program>(Parser(std::move(tokens)).run());
  } catch (const SyntaxError& error) {
    return fail_template(error.line, error.column, error.message);
  }
}

}  // namespace orrery::text::jinja
