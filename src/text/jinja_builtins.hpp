// Tables of what templates can call by name: filters, tests, methods, global functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_value.hpp"

namespace orrery::text::jinja {

class Interpreter;

// The arguments of a call.
struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Arguments sorted into the parameters of a builtin; raises on unknown names and on too many.
class Bound {
 public:
  Bound(std::string_view function, const CallArgs& args, std::span<const std::string_view> names,
        std::size_t required);
  bool has(std::size_t slot) const { return slots_[slot].has_value(); }
  const Value& operator[](std::size_t slot) const { return *slots_[slot]; }
  Value value_or(std::size_t slot, const Value& fallback) const {
    return slots_[slot].value_or(fallback);
  }
  bool flag(std::size_t slot, bool fallback) const {
    return has(slot) ? truthy(*slots_[slot]) : fallback;
  }
  // None counts as absent.
  std::int64_t integer_or(std::size_t slot, std::int64_t fallback) const;

 private:
  static constexpr std::size_t kMaxParameters = 6;
  std::string_view function_;
  std::array<std::optional<Value>, kMaxParameters> slots_;
};

// value | name(args)
using FilterFunction = Value (*)(Interpreter&, const Value&, const CallArgs&);
// value is name(args)
using TestFunction = bool (*)(Interpreter&, const Value&, const CallArgs&);
// name(args), and value.name(args) with the receiver
using GlobalFunction = Value (*)(Interpreter&, const CallArgs&);
using MethodFunction = Value (*)(Interpreter&, const Value&, const CallArgs&);

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};
struct TestEntry {
  std::string_view name;
  TestFunction function;
};
struct GlobalEntry {
  std::string_view name;
  GlobalFunction function;
};
struct MethodEntry {
  std::string_view name;
  MethodFunction function;
};

std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> number_filters();
std::span<const FilterEntry> sequence_filters();
std::span<const FilterEntry> order_filters();
std::span<const TestEntry> tests();
std::span<const GlobalEntry> globals();
std::span<const MethodEntry> string_methods();
std::span<const MethodEntry> dict_methods();
std::span<const MethodEntry> list_methods();

const FilterEntry* find_filter(std::string_view name);
const TestEntry* find_test(std::string_view name);

struct FunctionObject final : Object {
  FunctionObject(Budget* budget, const GlobalEntry* which)
      : Object(budget, sizeof(FunctionObject)), entry(which) {}
  const GlobalEntry* entry;
};

struct MethodObject final : Object {
  MethodObject(Budget* budget, Value object, const MethodEntry* which)
      : Object(budget, sizeof(MethodObject)), receiver(std::move(object)), entry(which) {}
  Value receiver;
  const MethodEntry* entry;
};

}  // namespace orrery::text::jinja
