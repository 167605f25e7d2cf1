// Methods of dicts and lists. Those that would change their object do not exist.
#include <algorithm>
#include <array>

#include "text/jinja_interp.hpp"

namespace orrery::text::jinja {

namespace {

Value dict_get(Interpreter&, const Value& self, const CallArgs& args) {
  if (args.positional.empty() || args.positional.size() > 2 || !args.named.empty()) {
    raise("get() takes a key and a default");
  }
  const Value& key = args.positional[0];
  if (key.is(Kind::list) || key.is(Kind::dict)) raise("get() of a key that cannot be one");
  if (const Value* value = dict_of(self).find(key)) return *value;
  return args.positional.size() == 2 ? args.positional[1] : Value::none();
}

Value dict_keys(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound("keys", args, {}, 0);
  ValueList values;
  for (const DictEntry& entry : dict_of(self).entries) values.push_back(entry.key);
  return interpreter.view("dict_keys", std::move(values));
}

Value dict_values(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound("values", args, {}, 0);
  ValueList values;
  for (const DictEntry& entry : dict_of(self).entries) values.push_back(entry.value);
  return interpreter.view("dict_values", std::move(values));
}

Value dict_items(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  const Bound bound("items", args, {}, 0);
  ValueList values;
  for (const DictEntry& entry : dict_of(self).entries) {
    values.push_back(interpreter.tuple({entry.key, entry.value}));
  }
  return interpreter.view("dict_items", std::move(values));
}

Value copy(Interpreter&, const Value& self, const CallArgs& args) {
  const Bound bound("copy", args, {}, 0);
  return self;
}

Value list_index(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 3> kNames{"value", "start", "stop"};
  const Bound bound("index", args, kNames, 1);
  const ValueList& values = items_of(self);
  const auto count = static_cast<std::int64_t>(values.size());
  const auto clamp = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? std::max(at, -count) + count : at, 0, count);
  };
  const std::int64_t stop = clamp(bound.integer_or(2, count));
  for (std::int64_t i = clamp(bound.integer_or(1, 0)); i < stop; ++i) {
    if (interpreter.equal(values[static_cast<std::size_t>(i)], bound[0])) return Value::of_int(i);
  }
  raise("index(): the value is not in the list");
}

Value list_count(Interpreter& interpreter, const Value& self, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"value"};
  const Bound bound("count", args, kNames, 1);
  std::int64_t count = 0;
  for (const Value& item : items_of(self)) count += interpreter.equal(item, bound[0]) ? 1 : 0;
  return Value::of_int(count);
}

}  // namespace

std::span<const MethodEntry> dict_methods() {
  static constexpr auto kMethods = std::to_array<MethodEntry>({
      {"get", dict_get},
      {"keys", dict_keys},
      {"values", dict_values},
      {"items", dict_items},
      {"copy", copy},
  });
  return kMethods;
}

std::span<const MethodEntry> list_methods() {
  static constexpr auto kMethods = std::to_array<MethodEntry>({
      {"index", list_index},
      {"count", list_count},
      {"copy", copy},
  });
  return kMethods;
}

}  // namespace orrery::text::jinja
