// The `loop` of a for: reads its source one item ahead only when it is asked what comes next.
#include <algorithm>

#include "text/jinja_interp.hpp"

namespace orrery::text::jinja {

// Whether the condition of the for lets an item through.
bool Interpreter::accepts(const Stmt& loop, const FramePtr& frame, const Value& item) {
  if (loop.test == nullptr) return true;
  FramePtr inner = push_frame(frame);
  std::swap(frame_, inner);
  struct Back {
    FramePtr& now;
    FramePtr& old;
    ~Back() { std::swap(now, old); }
  } back{frame_, inner};
  assign(loop.target, item);
  return truthy(eval(*loop.test));
}

bool LoopObject::fetch(Interpreter& interpreter, Value& item) {
  if (has_rest) {
    if (rest_position >= rest.size()) return false;
    item = rest[rest_position++];
    return true;
  }
  while (cursor.next(interpreter, item)) {
    interpreter.step();
    if (interpreter.accepts(*statement, frame, item)) return true;
  }
  return false;
}

bool LoopObject::next(Interpreter& interpreter) {
  Value item;
  if (has_after) {
    item = std::move(after);
    has_after = false;
  } else if (!fetch(interpreter, item)) {
    return false;
  }
  ++index0;
  before = std::move(current);
  current = std::move(item);
  return true;
}

bool LoopObject::peek(Interpreter& interpreter) {
  if (!has_after) has_after = fetch(interpreter, after);
  return has_after;
}

std::int64_t LoopObject::length(Interpreter& interpreter) {
  if (known_length >= 0) return known_length;
  if (statement->test == nullptr && !source.is(Kind::generator)) {
    return known_length = interpreter.length(source);
  }
  ValueList ahead;
  Value item;
  while (fetch(interpreter, item)) ahead.push_back(std::move(item));
  rest = std::move(ahead);
  rest_position = 0;
  has_rest = true;
  known_length = static_cast<std::int64_t>(rest.size()) + index0 + 1 + (has_after ? 1 : 0);
  return known_length;
}

namespace {

Value cycle(Interpreter&, const Value& self, const CallArgs& args) {
  if (args.positional.empty()) raise("loop.cycle() needs items");
  const auto index = static_cast<std::size_t>(static_cast<LoopObject&>(*self.object).index0);
  return args.positional[index % args.positional.size()];
}

Value changed(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  auto& loop = static_cast<LoopObject&>(*self.object);
  bool same = loop.has_changed && loop.last_changed.size() == args.positional.size();
  for (std::size_t i = 0; same && i < args.positional.size(); ++i) {
    same = interpreter.equal(loop.last_changed[i], args.positional[i]);
  }
  loop.last_changed = args.positional;
  loop.has_changed = true;
  return Value::of_bool(!same);
}

constexpr MethodEntry kCycle{"cycle", cycle};
constexpr MethodEntry kChanged{"changed", changed};

}  // namespace

Value Interpreter::loop_attribute(const Value& self, std::string_view name, NameId id) {
  auto& loop = static_cast<LoopObject&>(*self.object);
  if (name == "index") return Value::of_int(loop.index0 + 1);
  if (name == "index0") return Value::of_int(loop.index0);
  if (name == "first") return Value::of_bool(loop.index0 == 0);
  if (name == "last") return Value::of_bool(!loop.peek(*this));
  if (name == "length") return Value::of_int(loop.length(*this));
  if (name == "revindex") return Value::of_int(loop.length(*this) - loop.index0);
  if (name == "revindex0") return Value::of_int(loop.length(*this) - loop.index0 - 1);
  if (name == "depth") return Value::of_int(loop.depth0 + 1);
  if (name == "depth0") return Value::of_int(loop.depth0);
  if (name == "previtem") return loop.index0 == 0 ? Value::undefined(id) : loop.before;
  if (name == "nextitem") return loop.peek(*this) ? loop.after : Value::undefined(id);
  if (name == "cycle") return object<MethodObject>(Kind::method, self, &kCycle);
  if (name == "changed") return object<MethodObject>(Kind::method, self, &kChanged);
  return Value::undefined(id);
}

// loop(items) in a recursive for: the same body over other items, as a string.
Value Interpreter::call_loop(LoopObject& loop, const Value& source) {
  if (!loop.statement->recursive) raise("the loop is not marked recursive");
  Capture capture(*this);
  exec_loop(*loop.statement, source, loop.depth0 + 1, loop.frame);
  return string(capture.take());
}

}  // namespace orrery::text::jinja
