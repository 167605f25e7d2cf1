#include "text/jinja_interp.hpp"

#include <algorithm>

namespace orrery::text::jinja {

namespace {
// The variables whose text is the template's own: special tokens that the caller took from the
// tokenizer, not from a conversation.
bool is_markup_variable(std::string_view name) {
  return name == "bos_token" || name == "eos_token" || name == "unk_token" || name == "pad_token" ||
         name == "sep_token" || name == "cls_token";
}

constexpr std::uint32_t kMaxJsonDepth = 200;

// Restores a variable at the end of a block, also when an error passes.
template <class T>
class Restore {
 public:
  Restore(T& variable, T value) : variable_(variable), old_(std::move(variable)) {
    variable_ = std::move(value);
  }
  ~Restore() { variable_ = std::move(old_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& variable_;
  T old_;
};
}  // namespace

DepthGuard::DepthGuard(Interpreter& interpreter) : interpreter_(interpreter) {
  if (interpreter_.depth_ >= kMaxDepth) raise("the template recurses too deeply");
  ++interpreter_.depth_;
}

Value* Frame::find(NameId name) {
  for (auto& [id, value] : variables) {
    if (id == name) return &value;
  }
  return nullptr;
}

Interpreter::Interpreter(const Program& program, const Json& variables, const RenderLimits& limits)
    : program_(program), variables_(variables), limits_(limits) {
  context_.resize(program.names.size());
  context_known_.resize(program.names.size());
}

Interpreter::~Interpreter() {
  for (const auto& weak : frames_) {
    if (const FramePtr frame = weak.lock()) {
      const auto dropped = std::move(frame->variables);
      frame->variables.clear();
    }
  }
  for (const auto& weak : namespaces_) {
    if (const auto object = weak.lock()) {
      auto& members = static_cast<NamespaceObject&>(*object).members;
      const auto dropped = std::move(members);
      members.clear();
    }
  }
}

Text Interpreter::run() {
  Text out;
  output_ = &out;
  frame_ = push_frame(nullptr);
  frames_.push_back(frame_);
  exec_body(program_.body);
  return out;
}

void Interpreter::step(std::uint64_t count) {
  steps_ += count;
  if (steps_ > limits_.max_steps) {
    raise("the template takes more than " + std::to_string(limits_.max_steps) + " steps");
  }
}

std::string Interpreter::name_of(NameId name) const {
  return name < 0 ? std::string() : program_.names[static_cast<std::size_t>(name)];
}

void Interpreter::raise_undefined(const Value& value) {
  const std::string name = name_of(static_cast<NameId>(value.integer));
  raise(name.empty() ? "a value is undefined" : "'" + name + "' is undefined");
}

// Values ----------------------------------------------------------------------------------------

Value Interpreter::string(Text text) {
  if (text.size() > kMaxStringBytes) raise("a string of more than 16 MiB");
  step_bytes(text.size());
  return object<StringObject>(Kind::string, std::move(text));
}

Value Interpreter::string(std::string bytes, bool markup) {
  return string(Text(std::move(bytes), markup));
}

Value Interpreter::items(Kind kind, ValueList values) {
  std::uint32_t depth = 0;
  for (const Value& value : values) depth = std::max(depth, nesting_of(value));
  step(1 + values.size() / 4);
  return object<ItemsObject>(kind, std::move(values), depth + 1);
}

Value Interpreter::view(std::string_view name, ValueList values) {
  Value out = items(Kind::view, std::move(values));
  items_object(out).view_name = name;
  return out;
}

Value Interpreter::dict(std::vector<DictEntry> entries) {
  std::uint32_t depth = 0;
  for (const DictEntry& entry : entries) depth = std::max(depth, nesting_of(entry.value));
  step(1 + entries.size() / 4);
  return object<DictObject>(Kind::dict, std::move(entries), depth + 1);
}

void Interpreter::put(std::vector<DictEntry>& entries, Value key, Value value) {
  const bool hashable = key.is_string() || key.is_number() || key.is_none();
  if (!hashable) raise("a dict key of type " + std::string(type_name(key)));
  step(1 + entries.size() / 16);
  for (DictEntry& entry : entries) {
    if (equal(entry.key, key)) {
      entry.value = std::move(value);
      return;
    }
  }
  entries.push_back({std::move(key), std::move(value)});
}

Value Interpreter::convert_key(const std::string& key) {
  const auto [found, added] = keys_.try_emplace(key);
  if (added) found->second = object<StringObject>(Kind::string, Text(key, false));
  return found->second;
}

Value Interpreter::convert(const Json& json, bool markup, std::uint32_t depth) {
  if (depth > kMaxJsonDepth) raise("the variables are nested too deeply");
  switch (json.type()) {
    case Json::value_t::null:
      return Value::none();
    case Json::value_t::boolean:
      return Value::of_bool(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::of_int(json.get<std::int64_t>(), markup);
    case Json::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (number > INT64_MAX) return Value::of_real(static_cast<double>(number), markup);
      return Value::of_int(static_cast<std::int64_t>(number), markup);
    }
    case Json::value_t::number_float:
      return Value::of_real(json.get<double>(), markup);
    case Json::value_t::string:
      return object<StringObject>(Kind::string, Text(json.get_ref<const std::string&>(), markup));
    case Json::value_t::array: {
      ValueList values;
      values.reserve(json.size());
      for (const Json& member : json) values.push_back(convert(member, markup, depth + 1));
      return list(std::move(values));
    }
    case Json::value_t::object: {
      std::vector<DictEntry> entries;
      entries.reserve(json.size());
      for (const auto& [key, member] : json.items()) {
        entries.push_back({convert_key(key), convert(member, markup, depth + 1)});
      }
      return dict(std::move(entries));
    }
    default:
      return Value::undefined();
  }
}

const Value& Interpreter::context(NameId name) {
  const auto slot = static_cast<std::size_t>(name);
  if (context_known_[slot]) return context_[slot];
  context_known_[slot] = true;
  const std::string& text = program_.names[slot];
  Value& value = context_[slot];
  if (const auto found = variables_.find(text); found != variables_.end()) {
    value = convert(*found, is_markup_variable(text) && found->is_string(), 0);
    return value;
  }
  for (const GlobalEntry& entry : globals()) {
    if (entry.name == text) return value = object<FunctionObject>(Kind::function, &entry);
  }
  return value = Value::undefined(name);
}

Value Interpreter::lookup(NameId name) {
  std::uint32_t frames = 0;
  for (Frame* frame = frame_.get(); frame != nullptr; frame = frame->parent.get(), ++frames) {
    if (const Value* value = frame->find(name)) return *value;
  }
  step(frames / 8);
  return context(name);
}

// Statements ------------------------------------------------------------------------------------

FramePtr Interpreter::push_frame(FramePtr parent) {
  return make_object<Frame>(&budget_, std::move(parent));
}

void Interpreter::emit(const Text& text) {
  output_->append(text);
  open_bytes_ += text.size();
  step_bytes(text.size());
  if (open_bytes_ > kMaxOpenBytes) raise("the template holds more than 32 MiB of output");
  if (output_->size() > limits_.max_output_bytes) {
    raise("the template writes more than " + std::to_string(limits_.max_output_bytes) + " bytes");
  }
}

Interpreter::Flow Interpreter::exec_body(const Body& body) {
  for (const StmtPtr& stmt : body) {
    const Flow flow = exec(*stmt);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::exec(const Stmt& stmt) {
  const DepthGuard guard(*this);
  step();
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::data:
      emit(text_of(stmt.text));
      break;
    case StmtKind::output: {
      const Value value = eval(*stmt.value);
      emit(value.is_string() ? text_of(value) : str(value));
      break;
    }
    case StmtKind::assign:
      assign(stmt.target, eval(*stmt.value));
      break;
    case StmtKind::assign_block:
      exec_assign_block(stmt);
      break;
    case StmtKind::loop:
      exec_loop(stmt, eval(*stmt.value), 0, frame_);
      break;
    case StmtKind::branch:
      return exec_branch(stmt);
    case StmtKind::macro: {
      Target target;
      target.name = stmt.name;
      assign(target, make_macro(stmt.name, *stmt.signature, stmt.body));
      break;
    }
    case StmtKind::call_block:
      exec_call_block(stmt);
      break;
    case StmtKind::filter_block: {
      const Value body = capture(stmt.body);
      emit(str(eval_filter(*stmt.value, &body)));
      break;
    }
    case StmtKind::scope:
      return exec_scope(stmt);
    case StmtKind::break_loop:
      return Flow::break_loop;
    case StmtKind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::exec_branch(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches) {
    if (truthy(eval(*branch.test))) return exec_body(branch.body);
  }
  return exec_body(stmt.other);
}

void Interpreter::exec_loop(const Stmt& stmt, Value source, std::int64_t depth, FramePtr around) {
  Value value = object<LoopObject>(Kind::loop);
  auto& loop = static_cast<LoopObject&>(*value.object);
  loop.statement = &stmt;
  loop.frame = around;
  loop.depth0 = depth;
  loop.cursor = Cursor(*this, source);
  loop.source = std::move(source);
  const Restore<FramePtr> restore(frame_, around);
  bool any = false;
  while (loop.next(*this)) {
    step();
    any = true;
    if (frame_ == around || frame_.use_count() > 1) {
      frame_ = push_frame(around);
    } else {
      frame_->variables.clear();
    }
    frame_->variables.emplace_back(program_.loop_name, value);
    assign(stmt.target, loop.current);
    if (exec_body(stmt.body) == Flow::break_loop) break;
  }
  if (any || stmt.other.empty()) return;
  frame_ = push_frame(around);
  exec_body(stmt.other);
}

// Renders a body into a string of its own.
Value Interpreter::capture(const Body& body) {
  Capture capture(*this);
  const Restore<FramePtr> frame(frame_, push_frame(frame_));
  exec_body(body);
  return string(capture.take());
}

void Interpreter::exec_assign_block(const Stmt& stmt) {
  Value value = capture(stmt.body);
  if (stmt.value != nullptr) value = eval_filter(*stmt.value, &value);
  assign(stmt.target, value);
}

void Interpreter::exec_call_block(const Stmt& stmt) {
  const Value caller = make_macro(kNoName, *stmt.signature, stmt.body);
  emit(str(eval_call(*stmt.value, &caller)));
}

Interpreter::Flow Interpreter::exec_scope(const Stmt& stmt) {
  FramePtr scope = push_frame(frame_);
  ValueList values;
  for (const auto& [target, expr] : stmt.assignments) values.push_back(eval(*expr));
  const Restore<FramePtr> restore(frame_, std::move(scope));
  for (std::size_t i = 0; i < values.size(); ++i) assign(stmt.assignments[i].first, values[i]);
  return exec_body(stmt.body);
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.is_tuple) return assign_tuple(target, value);
  if (target.attribute.empty()) {
    if (Value* known = frame_->find(target.name)) {
      *known = value;
    } else {
      frame_->variables.emplace_back(target.name, value);
    }
    return;
  }
  const Value owner = lookup(target.name);
  if (!owner.is(Kind::name_space)) {
    raise("cannot set '" + target.attribute + "' of what is not a namespace");
  }
  auto& object = static_cast<NamespaceObject&>(*owner.object);
  if (Value* known = object.find(target.attribute)) {
    *known = value;
  } else {
    budget_.take(sizeof(object.members[0]) + target.attribute.size());
    object.members.emplace_back(target.attribute, value);
  }
}

void Interpreter::assign_tuple(const Target& target, const Value& value) {
  Cursor cursor(*this, value);
  ValueList values;
  Value item;
  while (values.size() <= target.parts.size() && cursor.next(*this, item)) values.push_back(item);
  if (values.size() != target.parts.size()) {
    raise("expected " + std::to_string(target.parts.size()) + " values to unpack");
  }
  for (std::size_t i = 0; i < values.size(); ++i) assign(target.parts[i], values[i]);
}

// Macros ----------------------------------------------------------------------------------------

Value Interpreter::make_macro(NameId name, const Signature& signature, const Body& body) {
  Value value = object<MacroObject>(Kind::macro);
  auto& macro = static_cast<MacroObject&>(*value.object);
  macro.name = name;
  macro.signature = &signature;
  macro.body = &body;
  macro.frame = frame_;
  frames_.push_back(frame_);
  return value;
}

namespace {
// Takes the argument of that name out of the named ones.
bool take_named(CallArgs& args, std::string_view name, Value& value) {
  const auto found = std::find_if(args.named.begin(), args.named.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found == args.named.end()) return false;
  value = std::move(found->second);
  args.named.erase(found);
  return true;
}
}  // namespace

// Fills the current frame with the parameters of a macro.
void Interpreter::bind_parameters(const MacroObject& macro, CallArgs args) {
  const Signature& signature = *macro.signature;
  const std::size_t count = signature.parameters.size();
  const std::size_t first_default = count - signature.defaults.size();
  const std::string name = macro.name == kNoName ? "caller" : name_of(macro.name);
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < count; ++i) {
    const NameId parameter = signature.parameters[i];
    Value value = Value::undefined(parameter);
    if (i < args.positional.size()) {
      value = args.positional[i];
    } else if (!take_named(args, name_of(parameter), value)) {
      missing.push_back(i);
    }
    frame_->variables.emplace_back(parameter, std::move(value));
  }
  if (signature.uses_caller && frame_->find(program_.caller_name) == nullptr) {
    Value caller = Value::undefined(program_.caller_name);
    take_named(args, "caller", caller);
    frame_->variables.emplace_back(program_.caller_name, std::move(caller));
  }
  if (signature.uses_kwargs) {
    std::vector<DictEntry> entries;
    for (auto& [key, value] : args.named) put(entries, string(key), std::move(value));
    frame_->variables.emplace_back(program_.kwargs_name, dict(std::move(entries)));
  } else if (!args.named.empty()) {
    raise("macro '" + name + "' takes no argument '" + args.named.front().first + "'");
  }
  const bool extra = args.positional.size() > count;
  if (signature.uses_varargs) {
    ValueList rest;
    if (extra)
      rest.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(count),
                  args.positional.end());
    frame_->variables.emplace_back(program_.varargs_name, tuple(std::move(rest)));
  } else if (extra) {
    raise("macro '" + name + "' takes not more than " + std::to_string(count) + " arguments");
  }
  for (const std::size_t i : missing) {
    if (i < first_default) continue;
    Value value = eval(*signature.defaults[i - first_default]);
    *frame_->find(signature.parameters[i]) = std::move(value);
  }
}

Value Interpreter::call_macro(const MacroObject& macro, CallArgs args) {
  if (macro_depth_ >= kMaxMacroDepth) raise("macros call each other more than 200 deep");
  const Restore<std::uint32_t> depth(macro_depth_, macro_depth_ + 1);
  const std::uint32_t line = line_;
  Capture capture(*this);
  {
    const Restore<FramePtr> frame(frame_, push_frame(macro.frame));
    bind_parameters(macro, std::move(args));
    exec_body(*macro.body);
  }
  line_ = line;
  return string(capture.take());
}

}  // namespace orrery::text::jinja
