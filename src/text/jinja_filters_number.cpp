// Filters that make numbers.
#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja_strings.hpp"

namespace orrery::text::jinja {

namespace {

// Digits with single underscores between them lose these, as in Python's int() and float(). False
// if an underscore stands elsewhere.
bool drop_underscores(std::string& digits) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') {
      out += digits[i];
      continue;
    }
    const auto digit = [&](std::size_t at) {
      return at < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[at])) != 0;
    };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return false;
  }
  digits = std::move(out);
  return true;
}

std::string trimmed(const Text& text) {
  return strip(text, Ends::both, std::nullopt).bytes();
}

std::optional<std::int64_t> parse_int(const Text& text, std::int64_t base) {
  std::string digits = trimmed(text);
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.erase(0, 1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char type = static_cast<char>(digits[1] | 0x20);
    const std::int64_t named = type == 'x' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : -1;
    if (named > 0 && (base == named || base == 0)) {
      base = named;
      digits.erase(0, 2);
      if (digits[0] == '_') digits.erase(0, 1);
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36) raise("int: the base must be 0 or from 2 to 36");
  if (digits.empty() || digits[0] == '-' || !drop_underscores(digits)) return std::nullopt;
  std::uint64_t size = 0;
  const char* last = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), last, size, static_cast<int>(base));
  if (parsed.ptr != last) return std::nullopt;
  const std::uint64_t most = static_cast<std::uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (parsed.ec != std::errc{} || size > most) raise("an integer beyond 64 bits");
  return static_cast<std::int64_t>(negative ? 0U - size : size);
}

std::optional<double> parse_real(const Text& text) {
  std::string digits = trimmed(text);
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.erase(0, 1);
  if (digits.empty() || digits[0] == '-' || !drop_underscores(digits)) return std::nullopt;
  double value = 0;
  const char* last = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), last, value);
  if (parsed.ptr != last || digits.find('(') != std::string::npos) return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range) {
    value = std::strtod(digits.c_str(), nullptr);
  } else if (parsed.ec != std::errc{}) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

// int(x) of a float; absent where Python raises ValueError or OverflowError.
std::optional<std::int64_t> truncate(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::fabs(value) >= 9223372036854775808.0) raise("an integer beyond 64 bits");
  return static_cast<std::int64_t>(value);
}

Value filter_int(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 2> kNames{"default", "base"};
  const Bound bound("int", args, kNames, 0);
  const Value fallback = bound.value_or(0, Value::of_int(0));
  if (value.is_undefined()) interpreter.raise_undefined(value);
  if (value.is_integral()) return Value::of_int(value.as_int(), value.markup);
  if (value.is(Kind::real)) {
    if (std::isinf(value.real)) raise("an infinite integer");
    const auto number = truncate(value.real);
    return number ? Value::of_int(*number, value.markup) : fallback;
  }
  if (!value.is_string()) return fallback;
  const Text& text = text_of(value);
  const bool markup = text.empty() || text.markup_at(0);
  if (const auto number = parse_int(text, bound.integer_or(1, 10))) {
    return Value::of_int(*number, markup);
  }
  const auto real = parse_real(text);
  const auto number = real ? truncate(*real) : std::nullopt;
  return number ? Value::of_int(*number, markup) : fallback;
}

Value filter_float(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 1> kNames{"default"};
  const Bound bound("float", args, kNames, 0);
  const Value fallback = bound.value_or(0, Value::of_real(0.0));
  if (value.is_undefined()) interpreter.raise_undefined(value);
  if (value.is_number()) return Value::of_real(value.as_real(), value.markup);
  if (!value.is_string()) return fallback;
  const Text& text = text_of(value);
  const auto real = parse_real(text);
  return real ? Value::of_real(*real, text.empty() || text.markup_at(0)) : fallback;
}

Value filter_abs(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  const Bound bound("abs", args, {}, 0);
  if (value.is_undefined()) interpreter.raise_undefined(value);
  if (!value.is_number()) raise("abs needs a number");
  if (value.is(Kind::real)) return Value::of_real(std::fabs(value.real), value.markup);
  const std::int64_t number = value.as_int();
  if (number == INT64_MIN) raise("an integer beyond 64 bits");
  return Value::of_int(number < 0 ? -number : number, value.markup);
}

// Python's round(): to the nearest, ties to even, decided on the exact decimal expansion.
double round_real(double value, std::int64_t digits) {
  if (!std::isfinite(value)) return value;
  if (digits > 300) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits >= 0) {
    std::array<char, 1024> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                   std::chars_format::fixed, static_cast<int>(digits));
    double out = value;
    if (end.ec == std::errc{}) std::from_chars(buffer.data(), end.ptr, out);
    return out;
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / scale) * scale;
}

std::int64_t round_integer(std::int64_t value, std::int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return 0;
  __int128 scale = 1;
  for (std::int64_t i = 0; i < -digits; ++i) scale *= 10;
  const __int128 wide = value;
  __int128 quotient = wide / scale;
  __int128 rest = wide % scale;
  if (rest < 0) {
    rest += scale;
    --quotient;
  }
  const bool up = rest * 2 > scale || (rest * 2 == scale && (quotient & 1) != 0);
  const __int128 out = (quotient + (up ? 1 : 0)) * scale;
  if (out > INT64_MAX || out < INT64_MIN) raise("an integer beyond 64 bits");
  return static_cast<std::int64_t>(out);
}

Value filter_round(Interpreter& interpreter, const Value& value, const CallArgs& args) {
  static constexpr std::array<std::string_view, 2> kNames{"precision", "method"};
  const Bound bound("round", args, kNames, 0);
  const std::string method =
      bound.has(1) ? interpreter.string_argument(bound[1], "round").bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    raise("round: the method is common, ceil or floor");
  }
  const std::int64_t digits = bound.integer_or(0, 0);
  if (value.is_undefined()) interpreter.raise_undefined(value);
  if (!value.is_number()) raise("round needs a number");
  if (method == "common") {
    if (value.is_integral())
      return Value::of_int(round_integer(value.as_int(), digits), value.markup);
    return Value::of_real(round_real(value.real, digits), value.markup);
  }
  if (digits > 300 || digits < -300) raise("round: the precision is out of range");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value.as_real() * scale;
  if (!std::isfinite(scaled)) raise("round of what is not finite");
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return Value::of_real(whole / scale, value.markup);
}

}  // namespace

std::span<const FilterEntry> number_filters() {
  static constexpr auto kFilters = std::to_array<FilterEntry>({
      {"int", filter_int},
      {"float", filter_float},
      {"abs", filter_abs},
      {"round", filter_round},
  });
  return kFilters;
}

}  // namespace orrery::text::jinja
