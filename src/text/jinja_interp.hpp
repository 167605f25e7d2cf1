// Walks the syntax tree of a template. One object renders once; it holds all state of a rendering
// and the bounds on it: steps, output, memory, depth. Faults travel as RenderError.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/chat_template.hpp"
#include "text/jinja_ast.hpp"
#include "text/jinja_builtins.hpp"
#include "text/jinja_value.hpp"

namespace orrery::text::jinja {

inline constexpr std::size_t kMaxStringBytes = 16U << 20;
inline constexpr std::size_t kMaxMemoryBytes = 64U << 20;
inline constexpr std::size_t kMaxOpenBytes = 32U << 20;  // of output and captures under way
inline constexpr std::uint32_t kMaxDepth = 1500;         // of evaluation: under 1 MiB of stack
inline constexpr std::uint32_t kMaxMacroDepth = 200;     // macros that call macros
inline constexpr std::int64_t kMaxRangeItems = 100'000;  // jinja2's sandbox has the same

// The variables of a scope. Macros and recursive loops keep the frame that they were made in.
struct Frame final : Object {
  Frame(Budget* budget, std::shared_ptr<Frame> around)
      : Object(budget, sizeof(Frame)), parent(std::move(around)) {}
  std::shared_ptr<Frame> parent;
  std::vector<std::pair<NameId, Value>> variables;
  Value* find(NameId name);
};
using FramePtr = std::shared_ptr<Frame>;

struct MacroObject final : Object {
  explicit MacroObject(Budget* budget) : Object(budget, sizeof(MacroObject)) {}
  NameId name = kNoName;  // kNoName: the body of a call block
  const Signature* signature = nullptr;
  const Body* body = nullptr;
  FramePtr frame;
};

// Walks any iterable value once.
class Cursor {
 public:
  Cursor() = default;
  Cursor(Interpreter& interpreter, Value source);  // raises if it is not iterable
  bool next(Interpreter& interpreter, Value& item);

 private:
  Value source_;
  std::size_t position_ = 0;
};

struct LoopObject final : Object {
  explicit LoopObject(Budget* budget) : Object(budget, sizeof(LoopObject)) {}
  bool next(Interpreter& interpreter);  // moves to the next item
  bool peek(Interpreter& interpreter);  // whether there is one; it waits in `after`
  std::int64_t length(Interpreter& interpreter);

  const Stmt* statement = nullptr;
  FramePtr frame;  // around the loop
  Value source;
  Cursor cursor;
  Value before, current, after;
  ValueList rest;  // read ahead to learn the length
  std::size_t rest_position = 0;
  ValueList last_changed;
  std::int64_t index0 = -1;
  std::int64_t known_length = -1;
  std::int64_t depth0 = 0;
  bool has_after = false;
  bool has_rest = false;
  bool has_changed = false;

 private:
  bool fetch(Interpreter& interpreter, Value& item);
};

class Interpreter {
 public:
  Interpreter(const Program& program, const Json& variables, const RenderLimits& limits);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Text run();
  std::uint32_t line() const { return line_; }
  const RenderLimits& limits() const { return limits_; }

  // Makers of values. Every one counts against the bounds.
  Value string(Text text);
  Value string(std::string bytes, bool markup = true);
  Value items(Kind kind, ValueList values);
  Value list(ValueList values) { return items(Kind::list, std::move(values)); }
  Value tuple(ValueList values) { return items(Kind::tuple, std::move(values)); }
  Value generator(ValueList values) { return items(Kind::generator, std::move(values)); }
  Value view(std::string_view name, ValueList values);
  Value dict(std::vector<DictEntry> entries);
  // Sets a key; raises if it cannot be one.
  void put(std::vector<DictEntry>& entries, Value key, Value value);
  template <class T, class... Args>
  Value object(Kind kind, Args&&... args) {
    return Value::of(kind, make_object<T>(&budget_, std::forward<Args>(args)...));
  }
  void step(std::uint64_t count = 1);
  // Counts the work on a string.
  void step_bytes(std::size_t bytes) { step(1 + bytes / 64); }
  Budget& budget() { return budget_; }

  // Python's view of values.
  Text str(const Value& value);
  Text repr(const Value& value);
  Text string_argument(const Value& value, std::string_view what);  // raises unless a string
  std::int64_t int_argument(const Value& value, std::string_view what);
  std::int64_t length(const Value& value);
  ValueList to_list(const Value& value);
  bool equal(const Value& a, const Value& b);
  bool less(const Value& a, const Value& b);
  bool contains(const Value& container, const Value& item);
  Value binary(Op op, const Value& left, const Value& right);
  Value attribute(const Value& value, std::string_view name, NameId id = kNoName);
  Value item(const Value& value, const Value& key);
  Value slice(const Value& value, const Value& start, const Value& stop, const Value& step);
  Value call(const Value& callee, CallArgs args);
  Value call_loop(LoopObject& loop, const Value& source);
  [[noreturn]] void raise_undefined(const Value& value);
  bool accepts(const Stmt& loop, const FramePtr& frame, const Value& item);
  std::string name_of(NameId name) const;

 private:
  friend class DepthGuard;
  class Capture;
  enum class Flow : std::uint8_t { normal, break_loop, continue_loop };

  // Statements.
  Flow exec_body(const Body& body);
  Flow exec(const Stmt& stmt);
  Flow exec_branch(const Stmt& stmt);
  void exec_loop(const Stmt& stmt, Value source, std::int64_t depth, FramePtr around);
  void exec_assign_block(const Stmt& stmt);
  void exec_call_block(const Stmt& stmt);
  Flow exec_scope(const Stmt& stmt);
  Value capture(const Body& body);
  void assign(const Target& target, const Value& value);
  void assign_tuple(const Target& target, const Value& value);
  void emit(const Text& text);
  Value make_macro(NameId name, const Signature& signature, const Body& body);
  Value call_macro(const MacroObject& macro, CallArgs args);
  void bind_parameters(const MacroObject& macro, CallArgs args);
  FramePtr push_frame(FramePtr parent);

  // Expressions.
  Value eval(const Expr& expr);
  Value eval_optional(const ExprPtr& expr);
  Value eval_name(const Expr& expr);
  Value eval_dict(const Expr& expr);
  Value eval_unary(const Expr& expr);
  Value eval_binary(const Expr& expr);
  Value eval_compare(const Expr& expr);
  Value eval_filter(const Expr& expr, const Value* body);
  Value eval_test(const Expr& expr);
  Value eval_call(const Expr& expr, const Value* caller);
  CallArgs eval_arguments(const Arguments* arguments);
  ValueList eval_all(const std::vector<ExprPtr>& items);
  bool compare(Op op, const Value& left, const Value& right);
  Value lookup(NameId name);
  const Value& context(NameId name);
  Value convert(const Json& json, bool markup, std::uint32_t depth);
  Value convert_key(const std::string& key);

  // Operators.
  Value add(const Value& left, const Value& right);
  Value multiply(const Value& left, const Value& right);
  Value repeat(const Value& value, std::int64_t count);
  Value arithmetic(Op op, const Value& left, const Value& right);
  Value integer_arithmetic(Op op, std::int64_t a, std::int64_t b, bool markup);
  Value real_arithmetic(Op op, double a, double b, bool markup);
  Value loop_attribute(const Value& self, std::string_view name, NameId id);

  const Program& program_;
  const Json& variables_;
  RenderLimits limits_;
  Budget budget_{kMaxMemoryBytes};
  std::uint64_t steps_ = 0;
  std::uint32_t depth_ = 0;
  std::uint32_t macro_depth_ = 0;
  std::uint32_t line_ = 0;
  Text* output_ = nullptr;
  std::size_t open_bytes_ = 0;
  FramePtr frame_;
  std::vector<Value> context_;  // by NameId, filled on first use
  std::vector<bool> context_known_;
  std::unordered_map<std::string, Value> keys_;  // of converted objects, shared
  // What can hold itself through its own members; emptied at the end.
  std::vector<std::weak_ptr<Frame>> frames_;
  std::vector<std::weak_ptr<Object>> namespaces_;

 public:
  void track_namespace(const Value& value) { namespaces_.push_back(value.object); }
};

// Collects what is written for as long as it lives.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter)
      : interpreter_(interpreter), outside_(std::exchange(interpreter.output_, &text_)) {}
  ~Capture() {
    interpreter_.output_ = outside_;
    interpreter_.open_bytes_ -= written_;
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Text take() {
    written_ = text_.size();
    return std::move(text_);
  }

 private:
  Interpreter& interpreter_;
  Text text_;
  Text* outside_;
  std::size_t written_ = 0;
};

// Counts one level of evaluation for as long as it lives.
class DepthGuard {
 public:
  explicit DepthGuard(Interpreter& interpreter);
  ~DepthGuard() { --interpreter_.depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Interpreter& interpreter_;
};

// printf-style and brace formatting, JSON: jinja_format.cpp, jinja_print.cpp.
Text format_percent(Interpreter& interpreter, const Text& format, const Value& args);
Text format_braces(Interpreter& interpreter, const Text& format, const CallArgs& args);
std::string real_repr(double value);
Text escape_html(const Text& text);
struct JsonStyle {
  bool ensure_ascii = false;
  bool indented = false;
  bool sort_keys = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
Text to_json(Interpreter& interpreter, const Value& value, const JsonStyle& style);

}  // namespace orrery::text::jinja
