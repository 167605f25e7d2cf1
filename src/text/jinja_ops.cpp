// Operators on values, as Python defines them.
#include <algorithm>
#include <cmath>

#include "text/jinja_interp.hpp"

namespace orrery::text::jinja {

namespace {
std::string_view op_text(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::subtract:
      return "-";
    case Op::multiply:
      return "*";
    case Op::divide:
      return "/";
    case Op::floor_divide:
      return "//";
    case Op::modulo:
      return "%";
    default:
      return "**";
  }
}

[[noreturn]] void raise_operands(std::string_view op, const Value& left, const Value& right) {
  raise("'" + std::string(op) + "' does not work on " + std::string(type_name(left)) + " and " +
        std::string(type_name(right)));
}

// Python's modulo of floats: the sign of the divisor.
double python_fmod(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest != 0.0) return (rest < 0.0) != (b < 0.0) ? rest + b : rest;
  return std::copysign(0.0, b);
}

double python_floordiv(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0.0 && (rest < 0.0) != (b < 0.0)) quotient -= 1.0;
  if (quotient == 0.0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1.0 : floor;
}
}  // namespace

Value Interpreter::integer_arithmetic(Op op, std::int64_t a, std::int64_t b, bool markup) {
  std::int64_t out = 0;
  bool overflow = false;
  switch (op) {
    case Op::add:
      overflow = __builtin_add_overflow(a, b, &out);
      break;
    case Op::subtract:
      overflow = __builtin_sub_overflow(a, b, &out);
      break;
    case Op::multiply:
      overflow = __builtin_mul_overflow(a, b, &out);
      break;
    case Op::power: {
      out = 1;
      for (std::int64_t base = a, left = b; left > 0 && !overflow; left >>= 1U) {
        if ((left & 1) != 0) overflow |= __builtin_mul_overflow(out, base, &out);
        if (left > 1) overflow |= __builtin_mul_overflow(base, base, &base);
      }
      break;
    }
    default: {  // floor_divide, modulo
      if (b == 0) raise("division by zero");
      if (a == INT64_MIN && b == -1) {
        overflow = op == Op::floor_divide;
        break;
      }
      const std::int64_t rest = a % b;
      const bool adjust = rest != 0 && (rest < 0) != (b < 0);
      out = op == Op::modulo ? rest + (adjust ? b : 0) : a / b - (adjust ? 1 : 0);
      break;
    }
  }
  if (overflow) raise("an integer beyond 64 bits");
  return Value::of_int(out, markup);
}

Value Interpreter::real_arithmetic(Op op, double a, double b, bool markup) {
  const bool divides = op == Op::divide || op == Op::floor_divide || op == Op::modulo;
  if (divides && b == 0.0) raise("division by zero");
  switch (op) {
    case Op::add:
      return Value::of_real(a + b, markup);
    case Op::subtract:
      return Value::of_real(a - b, markup);
    case Op::multiply:
      return Value::of_real(a * b, markup);
    case Op::divide:
      return Value::of_real(a / b, markup);
    case Op::floor_divide:
      return Value::of_real(python_floordiv(a, b), markup);
    case Op::modulo:
      return Value::of_real(python_fmod(a, b), markup);
    default:
      break;
  }
  if (a == 0.0 && b < 0.0) raise("zero to a negative power");
  if (a < 0.0 && std::isfinite(b) && b != std::floor(b)) raise("a power that is not real");
  const double out = std::pow(a, b);
  if (std::isinf(out) && std::isfinite(a) && std::isfinite(b)) raise("a power out of range");
  return Value::of_real(out, markup);
}

Value Interpreter::arithmetic(Op op, const Value& left, const Value& right) {
  if (!left.is_number() || !right.is_number()) raise_operands(op_text(op), left, right);
  const bool markup = left.markup && right.markup;
  const bool integers = left.is_integral() && right.is_integral() && op != Op::divide &&
                        !(op == Op::power && right.as_int() < 0);
  if (integers) return integer_arithmetic(op, left.as_int(), right.as_int(), markup);
  return real_arithmetic(op, left.as_real(), right.as_real(), markup);
}

Value Interpreter::add(const Value& left, const Value& right) {
  if (left.is_string() && right.is_string()) {
    const bool safe = left.safe || right.safe;
    Text text = safe && !left.safe ? escape_html(text_of(left)) : text_of(left);
    text.append(safe && !right.safe ? escape_html(text_of(right)) : text_of(right));
    Value out = string(std::move(text));
    out.safe = safe;
    return out;
  }
  const bool sequences = left.kind == right.kind && (left.is(Kind::list) || left.is(Kind::tuple));
  if (!sequences) return arithmetic(Op::add, left, right);
  ValueList values = items_of(left);
  step(1 + items_of(right).size());
  values.insert(values.end(), items_of(right).begin(), items_of(right).end());
  return items(left.kind, std::move(values));
}

namespace {

// Block by block: a character at a time takes long for the largest strings.
Text repeat_text(const Text& unit, std::uint64_t times) {
  constexpr std::uint64_t kBlockBytes = 4096;
  const std::uint64_t in_block = std::min(times, 1 + kBlockBytes / unit.size());
  Text block;
  for (std::uint64_t i = 0; i < in_block; ++i) block.append(unit);
  Text text;
  text.reserve(unit.size() * times);
  for (std::uint64_t i = 0; i < times / in_block; ++i) text.append(block);
  for (std::uint64_t i = 0; i < times % in_block; ++i) text.append(unit);
  return text;
}

}  // namespace

Value Interpreter::repeat(const Value& value, std::int64_t count) {
  const auto times = static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
  if (value.is_string()) {
    const Text& unit = text_of(value);
    if (unit.empty() || times == 0) return string(std::string());
    if (times > kMaxStringBytes / unit.size()) raise("a string of more than 16 MiB");
    Value out = string(repeat_text(unit, times));
    out.safe = value.safe;
    return out;
  }
  const ValueList& unit = items_of(value);
  constexpr std::size_t kMost = kMaxMemoryBytes / sizeof(Value);
  if (!unit.empty() && times > kMost / unit.size()) raise("a list with too many items");
  ValueList values;
  values.reserve(unit.size() * times);
  for (std::uint64_t i = 0; i < times && !unit.empty(); ++i) {
    values.insert(values.end(), unit.begin(), unit.end());
  }
  return items(value.kind, std::move(values));
}

Value Interpreter::multiply(const Value& left, const Value& right) {
  const auto repeatable = [](const Value& value) {
    return value.is_string() || value.is(Kind::list) || value.is(Kind::tuple);
  };
  if (repeatable(left) && right.is_integral()) return repeat(left, right.as_int());
  if (repeatable(right) && left.is_integral()) return repeat(right, left.as_int());
  return arithmetic(Op::multiply, left, right);
}

Value Interpreter::binary(Op op, const Value& left, const Value& right) {
  step();
  if (left.is_undefined()) raise_undefined(left);
  if (op == Op::modulo && left.is_string()) {
    return string(format_percent(*this, text_of(left), right));
  }
  if (right.is_undefined()) raise_undefined(right);
  if (op == Op::add) return add(left, right);
  if (op == Op::multiply) return multiply(left, right);
  return arithmetic(op, left, right);
}

// Comparison ------------------------------------------------------------------------------------

bool Interpreter::equal(const Value& a, const Value& b) {
  const DepthGuard guard(*this);
  step();
  if (a.is_number() && b.is_number()) return same_number(a, b);
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      if (bytes_of(a).size() != bytes_of(b).size()) return false;
      step_bytes(bytes_of(a).size());
      return bytes_of(a) == bytes_of(b);
    case Kind::list:
    case Kind::tuple: {
      if (a.object == b.object) return true;
      const ValueList& left = items_of(a);
      const ValueList& right = items_of(b);
      if (left.size() != right.size()) return false;
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (!equal(left[i], right[i])) return false;
      }
      return true;
    }
    case Kind::dict: {
      if (a.object == b.object) return true;
      const DictObject& left = dict_of(a);
      if (left.entries.size() != dict_of(b).entries.size()) return false;
      for (const DictEntry& entry : left.entries) {
        const Value* other = dict_of(b).find(entry.key);
        if (other == nullptr || !equal(entry.value, *other)) return false;
      }
      return true;
    }
    case Kind::range: {
      const RangeObject& left = range_of(a);
      const RangeObject& right = range_of(b);
      if (left.length != right.length) return false;
      if (left.length == 0) return true;
      return left.start == right.start && (left.length == 1 || left.step == right.step);
    }
    case Kind::function:
      return static_cast<const FunctionObject&>(*a.object).entry ==
             static_cast<const FunctionObject&>(*b.object).entry;
    default:
      return a.object == b.object;
  }
}

bool Interpreter::less(const Value& a, const Value& b) {
  const DepthGuard guard(*this);
  step();
  if (a.is_undefined()) raise_undefined(a);
  if (b.is_undefined()) raise_undefined(b);
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
  if (a.is_number() && b.is_number()) return a.as_real() < b.as_real();
  if (a.is_string() && b.is_string()) {
    step_bytes(std::min(bytes_of(a).size(), bytes_of(b).size()));
    return bytes_of(a) < bytes_of(b);
  }
  const bool sequences = a.kind == b.kind && (a.is(Kind::list) || a.is(Kind::tuple));
  if (!sequences) raise_operands("<", a, b);
  const ValueList& left = items_of(a);
  const ValueList& right = items_of(b);
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (!equal(left[i], right[i])) return less(left[i], right[i]);
  }
  return left.size() < right.size();
}

bool Interpreter::contains(const Value& container, const Value& item) {
  step();
  if (container.is_string()) {
    if (item.is_undefined()) raise_undefined(item);
    if (!item.is_string()) raise_operands("in", item, container);
    step_bytes(bytes_of(container).size());
    return find_bytes(bytes_of(container), bytes_of(item), 0) != std::string_view::npos;
  }
  if (container.is(Kind::dict)) {
    if (item.is(Kind::list) || item.is(Kind::dict)) {
      raise("a dict key of type " + std::string(type_name(item)));
    }
    return dict_of(container).find(item) != nullptr;
  }
  if (container.is(Kind::range) && item.is_integral()) {
    const RangeObject& range = range_of(container);
    if (range.length == 0) return false;
    const __int128 offset = static_cast<__int128>(item.as_int()) - range.start;
    return offset % range.step == 0 && offset / range.step >= 0 &&
           offset / range.step < range.length;
  }
  Cursor cursor(*this, container);
  Value candidate;
  while (cursor.next(*this, candidate)) {
    if (equal(candidate, item)) return true;
  }
  return false;
}

}  // namespace orrery::text::jinja
