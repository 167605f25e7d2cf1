#include "text/jinja_builtins.hpp"

#include <algorithm>
#include <ctime>

#include "text/jinja_interp.hpp"

namespace orrery::text::jinja {

Bound::Bound(std::string_view function, const CallArgs& args,
             std::span<const std::string_view> names, std::size_t required)
    : function_(function) {
  if (args.positional.size() > names.size())
    raise(std::string(function) + "() has too many arguments");
  for (std::size_t i = 0; i < args.positional.size(); ++i) slots_[i] = args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    const auto slot = static_cast<std::size_t>(found - names.begin());
    if (found == names.end() || slots_[slot].has_value()) {
      raise(std::string(function) + "() does not take the argument '" + name + "'");
    }
    slots_[slot] = value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!slots_[i].has_value()) {
      raise(std::string(function) + "() needs the argument '" + std::string(names[i]) + "'");
    }
  }
}

std::int64_t Bound::integer_or(std::size_t slot, std::int64_t fallback) const {
  if (!has(slot) || slots_[slot]->is_none()) return fallback;
  if (!slots_[slot]->is_integral()) raise(std::string(function_) + "() needs an integer");
  return slots_[slot]->as_int();
}

const FilterEntry* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), number_filters(), sequence_filters(), order_filters()}) {
    for (const FilterEntry& entry : table) {
      if (entry.name == name) return &entry;
    }
  }
  return nullptr;
}

const TestEntry* find_test(std::string_view name) {
  for (const TestEntry& entry : tests()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

namespace {

Value global_range(Interpreter& interpreter, const CallArgs& args) {
  const ValueList& bounds = args.positional;
  if (bounds.empty() || bounds.size() > 3 || !args.named.empty()) {
    raise("range() takes one to three integers");
  }
  std::int64_t numbers[3] = {0, 0, 1};
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    numbers[i] = interpreter.int_argument(bounds[i], "range()");
  }
  if (bounds.size() == 1) std::swap(numbers[0], numbers[1]);
  if (numbers[2] == 0) raise("range() with step zero");
  numbers[2] = std::max(numbers[2], -INT64_MAX);
  Value range = interpreter.object<RangeObject>(Kind::range, numbers[0], numbers[1], numbers[2]);
  if (range_of(range).length > kMaxRangeItems) raise("range() of more than 100000 items");
  return range;
}

// dict(mapping or pairs, name=value, ...), for dict() and namespace().
std::vector<DictEntry> collect_entries(Interpreter& interpreter, const CallArgs& args) {
  if (args.positional.size() > 1) raise("dict() takes one mapping");
  std::vector<DictEntry> entries;
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is(Kind::dict)) {
      entries = dict_of(source).entries;
      interpreter.step(entries.size());
    } else {
      for (const Value& pair : interpreter.to_list(source)) {
        ValueList parts = interpreter.to_list(pair);
        if (parts.size() != 2) raise("dict() needs pairs");
        interpreter.put(entries, std::move(parts[0]), std::move(parts[1]));
      }
    }
  }
  for (const auto& [name, value] : args.named) {
    interpreter.put(entries, interpreter.string(name), value);
  }
  return entries;
}

Value global_dict(Interpreter& interpreter, const CallArgs& args) {
  return interpreter.dict(collect_entries(interpreter, args));
}

Value global_namespace(Interpreter& interpreter, const CallArgs& args) {
  constexpr std::size_t kMaxMembers = 1024;
  Value value = interpreter.object<NamespaceObject>(Kind::name_space);
  auto& object = static_cast<NamespaceObject&>(*value.object);
  for (DictEntry& entry : collect_entries(interpreter, args)) {
    if (!entry.key.is_string()) raise("a namespace needs names");
    if (object.members.size() >= kMaxMembers) raise("a namespace of more than 1024 names");
    object.members.emplace_back(std::string(bytes_of(entry.key)), std::move(entry.value));
  }
  interpreter.track_namespace(value);
  return value;
}

Value global_cycler(Interpreter& interpreter, const CallArgs& args) {
  if (args.positional.empty() || !args.named.empty()) raise("cycler() needs items");
  return interpreter.object<CyclerObject>(Kind::cycler, args.positional);
}

Value global_joiner(Interpreter& interpreter, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"sep"};
  const Bound bound("joiner", args, kNames, 0);
  Value separator = bound.has(0) ? bound[0] : interpreter.string(", ");
  return interpreter.object<JoinerObject>(Kind::joiner, std::move(separator));
}

Value global_raise(Interpreter& interpreter, const CallArgs& args) {
  constexpr std::size_t kMaxMessageBytes = 500;
  if (args.positional.size() != 1 || !args.named.empty())
    raise("raise_exception() takes a message");
  const Text text = interpreter.str(args.positional[0]);
  std::string_view message = text.view();
  if (message.size() > kMaxMessageBytes) {
    std::size_t end = 0;
    while (end + character_at(message, end).length <= kMaxMessageBytes) {
      end += character_at(message, end).length;
    }
    message = message.substr(0, end);
  }
  raise(std::string(message));
}

// The clock of the limits is read as UTC, so that tests do not depend on the time zone.
Value global_strftime_now(Interpreter& interpreter, const CallArgs& args) {
  constexpr std::size_t kMaxFormatBytes = 256;
  if (args.positional.size() != 1 || !args.named.empty()) raise("strftime_now() takes a format");
  const std::string format =
      interpreter.string_argument(args.positional[0], "strftime_now()").bytes();
  if (format.size() > kMaxFormatBytes) raise("a time format of more than 256 bytes");
  std::tm parts{};
  if (interpreter.limits().now_unix_seconds != 0) {
    const auto now = static_cast<std::time_t>(interpreter.limits().now_unix_seconds);
    gmtime_r(&now, &parts);
  } else {
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &parts);
  }
  std::array<char, 4096> buffer{};
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &parts);
  return interpreter.string(std::string(buffer.data(), size));
}

}  // namespace

std::span<const GlobalEntry> globals() {
  static constexpr std::array<GlobalEntry, 7> kGlobals{{{"range", global_range},
                                                        {"dict", global_dict},
                                                        {"namespace", global_namespace},
                                                        {"cycler", global_cycler},
                                                        {"joiner", global_joiner},
                                                        {"raise_exception", global_raise},
                                                        {"strftime_now", global_strftime_now}}};
  return kGlobals;
}

}  // namespace orrery::text::jinja
