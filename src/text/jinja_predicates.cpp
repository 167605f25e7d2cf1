// The tests of `value is name`.
#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja_builtins.hpp"
#include "text/jinja_interp.hpp"

namespace orrery::text::jinja {

namespace {

void check_count(const CallArgs& args, std::size_t count) {
  if (args.positional.size() != count || !args.named.empty()) {
    raise("a test with the wrong number of arguments");
  }
}

using Predicate = bool (*)(const Value&);

template <Predicate kPredicate>
bool plain(Interpreter&, const Value& value, const CallArgs& args) {
  check_count(args, 0);
  return kPredicate(value);
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_boolean(const Value& value) {
  return value.is(Kind::boolean);
}
bool is_true(const Value& value) {
  return value.is(Kind::boolean) && value.boolean;
}
bool is_false(const Value& value) {
  return value.is(Kind::boolean) && !value.boolean;
}
bool is_integer(const Value& value) {
  return value.is(Kind::integer);
}
bool is_float(const Value& value) {
  return value.is(Kind::real);
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_string(const Value& value) {
  return value.is_string();
}
bool is_mapping(const Value& value) {
  return value.is(Kind::dict);
}
bool is_escaped(const Value& value) {
  return value.is_string() && value.safe;
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_items() || value.is(Kind::dict) ||
         value.is(Kind::range) || value.is(Kind::loop);
}

bool is_sequence(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is(Kind::list) ||
         value.is(Kind::tuple) || value.is(Kind::dict) || value.is(Kind::range);
}

bool is_callable(const Value& value) {
  return value.is_undefined() || value.is(Kind::macro) || value.is(Kind::function) ||
         value.is(Kind::method) || value.is(Kind::joiner) || value.is(Kind::loop);
}

// Python's islower and isupper: at least one letter with case, and none of the other.
template <Casing kCasing>
bool has_case(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  check_count(args, 0);
  const Text text = interpreter.str(value);
  constexpr Casing kOther = kCasing == Casing::lower ? Casing::upper : Casing::lower;
  return change_case(text, kCasing).view() == text.view() &&
         change_case(text, kOther).view() != text.view();
}

Value remainder(Interpreter& interpreter, const Value& value, const Value& divisor) {
  return interpreter.binary(Op::modulo, value, divisor);
}

bool test_odd(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  check_count(args, 0);
  return interpreter.equal(remainder(interpreter, value, Value::of_int(2)), Value::of_int(1));
}

bool test_even(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  check_count(args, 0);
  return interpreter.equal(remainder(interpreter, value, Value::of_int(2)), Value::of_int(0));
}

bool test_divisible(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  check_count(args, 1);
  return interpreter.equal(remainder(interpreter, value, args.positional[0]), Value::of_int(0));
}

bool test_equal(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  check_count(args, 1);
  return interpreter.equal(value, args.positional[0]);
}

bool test_not_equal(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  return !test_equal(interpreter, value, args);
}

bool test_less(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  check_count(args, 1);
  return interpreter.less(value, args.positional[0]);
}

bool test_greater(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  check_count(args, 1);
  return interpreter.less(args.positional[0], value);
}

bool test_less_equal(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  return test_less(interpreter, value, args) || interpreter.equal(value, args.positional[0]);
}

bool test_greater_equal(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  return test_greater(interpreter, value, args) || interpreter.equal(value, args.positional[0]);
}

bool test_in(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  check_count(args, 1);
  return interpreter.contains(args.positional[0], value);
}

bool test_same(Interpreter&, const Value& value, const CallArgs& args) {
  check_count(args, 1);
  const Value& other = args.positional[0];
  if (value.kind != other.kind) return false;
  if (value.object != nullptr || other.object != nullptr) return value.object == other.object;
  return value.is_none() || (value.is_number() && same_number(value, other));
}

template <class Entry>
bool named(Interpreter& interpreter, const Value& value, const CallArgs& args,
           const Entry* (*find)(std::string_view)) {
  check_count(args, 0);
  return find(interpreter.string_argument(value, "the test").view()) != nullptr;
}

bool test_filter(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  return named(interpreter, value, args, find_filter);
}

bool test_test(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  return named(interpreter, value, args, find_test);
}

}  // namespace

std::span<const TestEntry> tests() {
  static constexpr auto kTests = std::to_array<TestEntry>({
      {"defined", plain<is_defined>},
      {"undefined", plain<is_undefined>},
      {"none", plain<is_none>},
      {"boolean", plain<is_boolean>},
      {"true", plain<is_true>},
      {"false", plain<is_false>},
      {"integer", plain<is_integer>},
      {"float", plain<is_float>},
      {"number", plain<is_number>},
      {"string", plain<is_string>},
      {"mapping", plain<is_mapping>},
      {"iterable", plain<is_iterable>},
      {"sequence", plain<is_sequence>},
      {"callable", plain<is_callable>},
      {"escaped", plain<is_escaped>},
      {"lower", has_case<Casing::lower>},
      {"upper", has_case<Casing::upper>},
      {"odd", test_odd},
      {"even", test_even},
      {"divisibleby", test_divisible},
      {"sameas", test_same},
      {"in", test_in},
      {"filter", test_filter},
      {"test", test_test},
      {"==", test_equal},
      {"eq", test_equal},
      {"equalto", test_equal},
      {"!=", test_not_equal},
      {"ne", test_not_equal},
      {"<", test_less},
      {"lt", test_less},
      {"lessthan", test_less},
      {"<=", test_less_equal},
      {"le", test_less_equal},
      {">", test_greater},
      {"gt", test_greater},
      {"greaterthan", test_greater},
      {">=", test_greater_equal},
      {"ge", test_greater_equal},
  });
  return kTests;
}

}  // namespace orrery::text::jinja
