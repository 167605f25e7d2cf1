// Attributes, items, slices, calls, iteration.
#include <algorithm>

#include "text/jinja_interp.hpp"

namespace orrery::text::jinja {

namespace {
const MethodEntry* find_method_entry(const Value& value, std::string_view name) {
  std::span<const MethodEntry> table;
  if (value.is_string()) table = string_methods();
  if (value.is(Kind::dict)) table = dict_methods();
  if (value.is(Kind::list) || value.is(Kind::tuple)) table = list_methods();
  for (const MethodEntry& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}
}  // namespace

// value.name: an attribute first, then an item. What does not exist is undefined, as are the
// methods that would change a list or a dict (the sandbox hides them) and all internals of Python.
Value Interpreter::attribute(const Value& value, std::string_view name, NameId id) {
  step();
  switch (value.kind) {
    case Kind::undefined:
      raise_undefined(value);
    case Kind::loop:
      return loop_attribute(value, name, id);
    case Kind::name_space:
      if (const Value* member = static_cast<NamespaceObject&>(*value.object).find(name)) {
        return *member;
      }
      return Value::undefined(id);
    case Kind::macro:
      if (name == "name") {
        const NameId macro = static_cast<MacroObject&>(*value.object).name;
        return macro == kNoName ? Value::none() : string(name_of(macro));
      }
      return Value::undefined(id);
    case Kind::cycler: {
      auto& cycler = static_cast<CyclerObject&>(*value.object);
      if (name == "current") return cycler.items[cycler.position];
      if (name != "next" && name != "reset") return Value::undefined(id);
      break;
    }
    case Kind::tuple:
      if (items_object(value).view_name == kGroupName && name == "grouper") {
        return items_of(value)[0];
      }
      if (items_object(value).view_name == kGroupName && name == "list") return items_of(value)[1];
      break;
    default:
      break;
  }
  if (const MethodEntry* method = find_method_entry(value, name)) {
    return object<MethodObject>(Kind::method, value, method);
  }
  if (value.is(Kind::cycler)) {
    static constexpr MethodEntry kNext{
        "next", [](Interpreter&, const Value& self, const CallArgs&) {
          auto& cycler = static_cast<CyclerObject&>(*self.object);
          const Value current = cycler.items[cycler.position];
          cycler.position = (cycler.position + 1) % cycler.items.size();
          return current;
        }};
    static constexpr MethodEntry kReset{"reset",
                                        [](Interpreter&, const Value& self, const CallArgs&) {
                                          static_cast<CyclerObject&>(*self.object).position = 0;
                                          return Value::none();
                                        }};
    return object<MethodObject>(Kind::method, value, name == "next" ? &kNext : &kReset);
  }
  if (value.is(Kind::dict)) {
    if (const Value* member = dict_of(value).find(name)) return *member;
  }
  return Value::undefined(id);
}

namespace {
// A position from either end, or -1.
std::int64_t position_in(std::int64_t index, std::int64_t length) {
  if (index < 0) index += length;
  return index >= 0 && index < length ? index : -1;
}
}  // namespace

// value[key]: an item first, then an attribute.
Value Interpreter::item(const Value& value, const Value& key) {
  step();
  if (value.is_undefined()) raise_undefined(value);
  if (value.is(Kind::dict)) {
    if (const Value* member = dict_of(value).find(key)) return *member;
  }
  if (key.is_integral()) {
    const std::int64_t index = key.as_int();
    if (value.is(Kind::list) || value.is(Kind::tuple)) {
      const ValueList& values = items_of(value);
      const std::int64_t at = position_in(index, static_cast<std::int64_t>(values.size()));
      if (at >= 0) return values[static_cast<std::size_t>(at)];
    } else if (value.is(Kind::range)) {
      const std::int64_t at = position_in(index, range_of(value).length);
      if (at >= 0) return Value::of_int(range_of(value).at(at));
    } else if (value.is_string()) {
      const Text& text = text_of(value);
      step_bytes(text.size());
      const auto count = static_cast<std::int64_t>(character_count(text.view()));
      const std::int64_t at = position_in(index, count);
      if (at >= 0) {
        const std::size_t begin = byte_offset(text.view(), static_cast<std::size_t>(at));
        return string(text.slice(begin, begin + character_at(text.view(), begin).length));
      }
    }
    return Value::undefined();
  }
  if (!key.is_string()) return Value::undefined();
  const Value found = attribute(value, bytes_of(key));
  return found;
}

namespace {
struct SliceBounds {
  std::int64_t start, stop, step;
};

std::int64_t clamp_index(std::int64_t index, std::int64_t length, std::int64_t step) {
  if (index < 0) index = index < -length ? -1 : index + length;
  if (index < 0) return step < 0 ? -1 : 0;
  if (index >= length) return step < 0 ? length - 1 : length;
  return index;
}

SliceBounds slice_bounds(const Value& start, const Value& stop, const Value& step,
                         std::int64_t length) {
  for (const Value* bound : {&start, &stop, &step}) {
    if (!bound->is_none() && !bound->is_integral()) raise("slice bounds must be integers or none");
  }
  SliceBounds out{0, 0, step.is_none() ? 1 : step.as_int()};
  if (out.step == 0) raise("a slice with step zero");
  out.step = std::max(out.step, -INT64_MAX);
  const bool back = out.step < 0;
  out.start =
      start.is_none() ? (back ? length - 1 : 0) : clamp_index(start.as_int(), length, out.step);
  out.stop = stop.is_none() ? (back ? -1 : length) : clamp_index(stop.as_int(), length, out.step);
  return out;
}

// Visits the positions that a slice selects, in order.
template <class Visit>
void for_each_position(const SliceBounds& bounds, Visit visit) {
  const auto inside = [&](__int128 at) {
    return bounds.step > 0 ? at < bounds.stop : at > bounds.stop;
  };
  for (__int128 at = bounds.start; inside(at); at += bounds.step) {
    visit(static_cast<std::size_t>(at));
  }
}
}  // namespace

Value Interpreter::slice(const Value& value, const Value& start, const Value& stop,
                         const Value& stride) {
  step();
  if (value.is_undefined()) raise_undefined(value);
  if (value.is_string()) {
    const Text& text = text_of(value);
    step_bytes(text.size());
    std::vector<std::uint32_t> offsets;  // of every character
    for (std::size_t at = 0; at < text.size(); at += character_at(text.view(), at).length) {
      offsets.push_back(static_cast<std::uint32_t>(at));
    }
    const auto count = static_cast<std::int64_t>(offsets.size());
    const SliceBounds bounds = slice_bounds(start, stop, stride, count);
    offsets.push_back(static_cast<std::uint32_t>(text.size()));
    Text out;
    if (bounds.step == 1) {
      const auto begin = static_cast<std::size_t>(bounds.start);
      out = text.slice(offsets[begin], offsets[static_cast<std::size_t>(bounds.stop)]);
    } else {
      for_each_position(bounds,
                        [&](std::size_t at) { out.append(text, offsets[at], offsets[at + 1]); });
    }
    Value sliced = string(std::move(out));
    sliced.safe = value.safe;
    return sliced;
  }
  if (value.is(Kind::list) || value.is(Kind::tuple)) {
    const ValueList& values = items_of(value);
    ValueList out;
    const auto count = static_cast<std::int64_t>(values.size());
    for_each_position(slice_bounds(start, stop, stride, count), [&](std::size_t at) {
      step();
      out.push_back(values[at]);
    });
    return items(value.kind, std::move(out));
  }
  if (value.is(Kind::range)) {
    const RangeObject& range = range_of(value);
    const SliceBounds bounds = slice_bounds(start, stop, stride, range.length);
    return object<RangeObject>(Kind::range, range.at(bounds.start), range.at(bounds.stop),
                               range.step * bounds.step);
  }
  return Value::undefined();
}

Value Interpreter::call(const Value& callee, CallArgs args) {
  const DepthGuard guard(*this);
  step();
  switch (callee.kind) {
    case Kind::undefined:
      raise_undefined(callee);
    case Kind::macro:
      return call_macro(static_cast<MacroObject&>(*callee.object), std::move(args));
    case Kind::function:
      return static_cast<FunctionObject&>(*callee.object).entry->function(*this, args);
    case Kind::method: {
      auto& method = static_cast<MethodObject&>(*callee.object);
      return method.entry->function(*this, method.receiver, args);
    }
    case Kind::loop: {
      if (args.positional.size() != 1 || !args.named.empty()) raise("loop() takes one argument");
      return call_loop(static_cast<LoopObject&>(*callee.object), args.positional[0]);
    }
    case Kind::joiner: {
      auto& joiner = static_cast<JoinerObject&>(*callee.object);
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return string(std::string());
    }
    default:
      raise("a value of type " + std::string(type_name(callee)) + " cannot be called");
  }
}

std::int64_t Interpreter::length(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      step_bytes(bytes_of(value).size());
      return static_cast<std::int64_t>(character_count(bytes_of(value)));
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      return static_cast<std::int64_t>(items_of(value).size());
    case Kind::dict:
      return static_cast<std::int64_t>(dict_of(value).entries.size());
    case Kind::range:
      return range_of(value).length;
    case Kind::loop:
      return static_cast<LoopObject&>(*value.object).length(*this);
    default:
      raise("a value of type " + std::string(type_name(value)) + " has no length");
  }
}

ValueList Interpreter::to_list(const Value& value) {
  if (value.is_items() && !value.is(Kind::generator)) {
    step(1 + items_of(value).size() / 4);
    return items_of(value);
  }
  ValueList values;
  Cursor cursor(*this, value);
  Value item;
  constexpr std::size_t kMost = kMaxMemoryBytes / sizeof(Value);
  while (cursor.next(*this, item)) {
    if (values.size() >= kMost) raise("a list with too many items");
    step();
    values.push_back(std::move(item));
  }
  return values;
}

// Iteration -------------------------------------------------------------------------------------

Cursor::Cursor(Interpreter&, Value source) : source_(std::move(source)) {
  switch (source_.kind) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
    case Kind::generator:
    case Kind::dict:
    case Kind::range:
      return;
    default:
      raise("a value of type " + std::string(type_name(source_)) + " cannot be walked");
  }
}

bool Cursor::next(Interpreter& interpreter, Value& item) {
  switch (source_.kind) {
    case Kind::string: {
      const Text& text = text_of(source_);
      if (position_ >= text.size()) return false;
      const std::size_t end = position_ + character_at(text.view(), position_).length;
      item = interpreter.string(text.slice(position_, end));
      position_ = end;
      return true;
    }
    case Kind::generator: {
      ItemsObject& generator = items_object(source_);
      if (generator.position >= generator.items.size()) return false;
      item = generator.items[generator.position++];
      return true;
    }
    case Kind::dict: {
      const auto& entries = dict_of(source_).entries;
      if (position_ >= entries.size()) return false;
      item = entries[position_++].key;
      return true;
    }
    case Kind::range: {
      const RangeObject& range = range_of(source_);
      if (position_ >= static_cast<std::size_t>(range.length)) return false;
      item = Value::of_int(range.at(static_cast<std::int64_t>(position_++)));
      return true;
    }
    case Kind::list:
    case Kind::tuple:
    case Kind::view: {
      const ValueList& values = items_of(source_);
      if (position_ >= values.size()) return false;
      item = values[position_++];
      return true;
    }
    default:
      return false;
  }
}

}  // namespace orrery::text::jinja
