// The syntax tree of a template. Nodes never change after parsing, so that threads share them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.hpp"

namespace orrery::text::jinja {

struct Expr;
struct FilterEntry;
struct TestEntry;
using ExprPtr = std::unique_ptr<const Expr>;

enum class ExprKind : std::uint8_t {
  constant,   // constant
  name,       // name
  list,       // items
  tuple,      // items
  dict,       // items: key, value, key, value, ...
  attribute,  // items[0] . name
  item,       // items[0] [ items[1] ]
  slice,      // items[0] [ items[1] : items[2] : items[3] ], any of the last three null
  call,       // items[0] ( arguments )
  filter,     // items[0] | name ( arguments ); items[0] null: the body of a block
  test,       // items[0] is name ( arguments )
  unary,      // op items[0]
  binary,     // items[0] op items[1]
  compare,    // items[0] ops[0] items[1] ops[1] items[2] ...
  concat,     // items joined
  condition,  // items[1] if items[0] else items[2] (or null)
};

enum class Op : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  negative,
  positive,
  logical_not,
  logical_and,
  logical_or,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
};

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr spread_list;  // *x
  ExprPtr spread_dict;  // **x
};

struct Expr {
  ExprKind kind = ExprKind::constant;
  Op op = Op::add;
  std::uint32_t line = 0;
  std::uint32_t height = 1;  // of the tree below: bounds the recursion of evaluation
  NameId name = kNoName;
  const FilterEntry* filter = nullptr;  // filter; null: there is none of that name
  const TestEntry* test = nullptr;      // test; the same
  Value constant;                       // constant; attribute: the name as a string
  std::vector<ExprPtr> items;
  std::vector<Op> ops;
  std::unique_ptr<const Arguments> arguments;
};

// What can be assigned to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  NameId name = kNoName;
  std::string attribute;  // not empty: name.attribute
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct Stmt;
using StmtPtr = std::unique_ptr<const Stmt>;
using Body = std::vector<StmtPtr>;

enum class StmtKind : std::uint8_t {
  data,          // text
  output,        // value
  assign,        // target = value
  assign_block,  // target = body, through value (a filter chain) if present
  loop,          // for target in value if test: body else other
  branch,        // if value: body elif ... else other; tests and bodies in `branches`
  macro,         // signature, body
  call_block,    // value is the call; signature, body
  filter_block,  // value (a filter chain) over body
  scope,         // body in a scope of its own: with (assignments), generation, block
  break_loop,
  continue_loop,
};

// The parameters of a macro or of the body of a call block.
struct Signature {
  std::vector<NameId> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
};

struct Branch {
  ExprPtr test;
  Body body;
};

struct Stmt {
  StmtKind kind = StmtKind::data;
  bool recursive = false;  // loop
  std::uint32_t line = 0;
  NameId name = kNoName;  // macro
  Value text;             // data
  ExprPtr value;
  ExprPtr test;
  Target target;
  Body body;
  Body other;
  std::vector<Branch> branches;
  std::vector<std::pair<Target, ExprPtr>> assignments;  // with
  std::unique_ptr<const Signature> signature;
};

struct Program {
  Body body;
  std::vector<std::string> names;  // NameId -> text
  NameId loop_name = kNoName;      // the names that the language itself sets
  NameId caller_name = kNoName;
  NameId kwargs_name = kNoName;
  NameId varargs_name = kNoName;
};

}  // namespace orrery::text::jinja
