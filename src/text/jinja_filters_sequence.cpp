// Filters over sequences that keep their order.
#include <algorithm>
#include <array>

#include "text/jinja_paths.hpp"
#include "text/jinja_strings.hpp"

namespace orrery::text::jinja {

namespace {

Value filter_list(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  const Bound bound("list", args, {}, 0);
  return interpreter.list(interpreter.to_list(value));
}

Value filter_length(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  const Bound bound("length", args, {}, 0);
  return Value::of_int(interpreter.length(value));
}

Value filter_first(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  const Bound bound("first", args, {}, 0);
  Cursor cursor(interpreter, value);
  Value item;
  return cursor.next(interpreter, item) ? item : Value::undefined();
}

Value filter_last(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  const Bound bound("last", args, {}, 0);
  if (value.is(Kind::generator)) raise("last does not work on a generator");
  if (value.is_undefined()) return Value::undefined();
  const ValueList values = interpreter.to_list(value);
  return values.empty() ? Value::undefined() : values.back();
}

Value filter_reverse(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  const Bound bound("reverse", args, {}, 0);
  if (value.is_string()) {
    return interpreter.slice(value, Value::none(), Value::none(), Value::of_int(-1));
  }
  ValueList values = interpreter.to_list(value);
  std::reverse(values.begin(), values.end());
  // reversed() gives an iterator; what has none is made a list first.
  return value.is(Kind::generator) ? interpreter.list(std::move(values))
                                   : interpreter.generator(std::move(values));
}

Value filter_default(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 2> kNames{"default_value", "boolean"};
  const Bound bound("default", args, kNames, 0);
  const bool use = value.is_undefined() || (bound.flag(1, false) && !truthy(value));
  if (!use) return value;
  return bound.has(0) ? bound[0] : interpreter.string(std::string());
}

Value filter_items(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  const Bound bound("items", args, {}, 0);
  ValueList pairs;
  if (!value.is_undefined()) {
    if (!value.is(Kind::dict))
      raise("items needs a mapping, not a " + std::string(type_name(value)));
    for (const DictEntry& entry : dict_of(value).entries) {
      pairs.push_back(interpreter.tuple({entry.key, entry.value}));
    }
  }
  return interpreter.generator(std::move(pairs));
}

Value filter_join(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 2> kNames{"d", "attribute"};
  const Bound bound("join", args, kNames, 0);
  const Text separator = bound.has(0) ? interpreter.str(bound[0]) : Text();
  ValueList values = interpreter.to_list(value);
  if (bound.has(1) && !bound[1].is_none()) {
    const AttributePath path(interpreter, bound[1]);
    for (Value& item : values) item = path.get(interpreter, item);
  }
  return interpreter.string(join(interpreter, separator, values, true));
}

// The arguments after the first.
CallArgs rest_of(const CallArgs& args, std::size_t skip) {
  CallArgs rest;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(skip),
                         args.positional.end());
  rest.named = args.named;
  return rest;
}

Value filter_map(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  ValueList out;
  if (!truthy(value)) return interpreter.generator({});
  if (args.positional.empty()) {
    static constexpr std::array<std::string_view, 2> kNames{"attribute", "default"};
    const Bound bound("map", args, kNames, 1);
    std::optional<Value> fallback;
    if (bound.has(1) && !bound[1].is_none()) fallback = bound[1];
    const AttributePath path(interpreter, bound[0], fallback);
    for (Value& item : interpreter.to_list(value)) out.push_back(path.get(interpreter, item));
    return interpreter.generator(std::move(out));
  }
  const Text name = interpreter.string_argument(args.positional[0], "map");
  const FilterEntry* filter = find_filter(name.view());
  if (filter == nullptr) raise("there is no filter '" + name.bytes() + "'");
  const CallArgs rest = rest_of(args, 1);
  for (const Value& item : interpreter.to_list(value)) {
    interpreter.step();
    out.push_back(filter->function(interpreter, item, rest));
  }
  return interpreter.generator(std::move(out));
}

// select, reject, selectattr, rejectattr: those items whose (attribute's) test gives `wanted`.
Value select(Interpreter& interpreter, const Value& value, const CallArgs& args, bool by_attribute,
             bool wanted) {
  std::optional<AttributePath> path;
  std::size_t skip = 0;
  if (!truthy(value)) return interpreter.generator({});
  if (by_attribute) {
    if (args.positional.empty()) raise("the name of an attribute is missing");
    path.emplace(interpreter, args.positional[0]);
    skip = 1;
  }
  const TestEntry* test = nullptr;
  CallArgs rest;
  if (args.positional.size() > skip) {
    const Text name = interpreter.string_argument(args.positional[skip], "the name of a test");
    test = find_test(name.view());
    if (test == nullptr) raise("there is no test '" + name.bytes() + "'");
    rest = rest_of(args, skip + 1);
  }
  ValueList out;
  for (Value& item : interpreter.to_list(value)) {
    interpreter.step();
    const Value tested = path ? path->get(interpreter, item) : item;
    const bool passes =
        test == nullptr ? truthy(tested) : test->function(interpreter, tested, rest);
    if (passes == wanted) out.push_back(std::move(item));
  }
  return interpreter.generator(std::move(out));
}

template <bool kByAttribute, bool kWanted>
Value filter_select(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  return select(interpreter, value, args, kByAttribute, kWanted);
}

Value filter_batch(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 2> kNames{"linecount", "fill_with"};
  const Bound bound("batch", args, kNames, 1);
  const std::int64_t count = bound.integer_or(0, 0);
  ValueList out;
  ValueList line;
  for (Value& item : interpreter.to_list(value)) {
    if (static_cast<std::int64_t>(line.size()) == count) {
      out.push_back(interpreter.list(std::exchange(line, {})));
    }
    line.push_back(std::move(item));
  }
  if (!line.empty()) {
    const bool fill = bound.has(1) && !bound[1].is_none();
    if (fill && count > (1 << 20)) raise("batch of more than a million");
    while (fill && static_cast<std::int64_t>(line.size()) < count) line.push_back(bound[1]);
    out.push_back(interpreter.list(std::move(line)));
  }
  return interpreter.generator(std::move(out));
}

Value filter_slice(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 2> kNames{"slices", "fill_with"};
  const Bound bound("slice", args, kNames, 1);
  const std::int64_t slices = bound.integer_or(0, 0);
  if (slices == 0) raise("slice into zero parts");
  if (slices > kMaxRangeItems) raise("slice into more than 100000 parts");
  const ValueList values = interpreter.to_list(value);
  const auto length = static_cast<std::int64_t>(values.size());
  ValueList out;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    const bool extra = i < length % slices;
    const std::int64_t end = at + length / slices + (extra ? 1 : 0);
    ValueList part(values.begin() + at, values.begin() + end);
    if (bound.has(1) && !bound[1].is_none() && !extra) part.push_back(bound[1]);
    out.push_back(interpreter.list(std::move(part)));
    at = end;
  }
  return interpreter.generator(std::move(out));
}

Value filter_attr(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"name"};
  const Bound bound("attr", args, kNames, 1);
  const Text name = interpreter.string_argument(bound[0], "attr");
  // Only attributes, never the items of a mapping.
  if (value.is(Kind::dict) && dict_of(value).find(name.view()) != nullptr) {
    const Value found = interpreter.attribute(value, name.view());
    return found.is(Kind::method) ? found : Value::undefined();
  }
  return interpreter.attribute(value, name.view());
}

}  // namespace

std::span<const FilterEntry> sequence_filters() {
  static constexpr auto kFilters = std::to_array<FilterEntry>({
      {"list", filter_list},
      {"length", filter_length},
      {"count", filter_length},
      {"first", filter_first},
      {"last", filter_last},
      {"reverse", filter_reverse},
      {"default", filter_default},
      {"d", filter_default},
      {"items", filter_items},
      {"join", filter_join},
      {"map", filter_map},
      {"select", filter_select<false, true>},
      {"reject", filter_select<false, false>},
      {"selectattr", filter_select<true, true>},
      {"rejectattr", filter_select<true, false>},
      {"batch", filter_batch},
      {"slice", filter_slice},
      {"attr", filter_attr},
  });
  return kFilters;
}

}  // namespace orrery::text::jinja
