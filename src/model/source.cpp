#include "model/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery::model {
namespace {

constexpr std::size_t kMaxShownChars = 40;

std::string describe(const Scalar& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("the float {}", *real);
  const std::string& text = std::get<std::string>(value);
  return fmt::format("the string \"{}\"{}", text.substr(0, kMaxShownChars),
                     text.size() > kMaxShownChars ? "..." : "");
}

std::optional<double> as_double(const Scalar& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return static_cast<double>(*number);
  return std::nullopt;
}

}  // namespace

std::unexpected<Error> Source::wrong(Key key, const std::string& expected) const {
  const std::optional<SourceValue> value = find(key);
  if (!value) {
    return fail("E_HPARAM", fmt::format("{} is missing, expected {}", name(key), expected));
  }
  const std::string found =
      value->is_list ? fmt::format("a list of {} items", value->size) : describe(value->items[0]);
  return fail("E_HPARAM", fmt::format("{} is {}, expected {}", name(key), found, expected));
}

Result<Scalar> Source::single(Key key, const std::string& expected) const {
  const std::optional<SourceValue> value = find(key);
  if (!value) return wrong(key, expected);
  if (!value->is_list) return value->items[0];
  if (value->items.size() != list_length_ || list_length_ == 0) {
    return wrong(key, fmt::format("{}, or one for each of {} layers", expected, list_length_));
  }
  for (const Scalar& item : value->items) {
    if (item != value->items[0]) {
      return fail("E_HPARAM", fmt::format("{} differs between layers, which this architecture's "
                                          "forward pass does not support",
                                          name(key)));
    }
  }
  return value->items[0];
}

Result<std::uint32_t> Source::integer(Key key, std::uint32_t low, std::uint32_t high) const {
  const std::string expected = fmt::format("an integer from {} to {}", low, high);
  ORRERY_TRY(const Scalar value, single(key, expected));
  const auto* number = std::get_if<std::int64_t>(&value);
  if (number == nullptr || *number < low || *number > high) return wrong(key, expected);
  return static_cast<std::uint32_t>(*number);
}

Result<std::uint32_t> Source::integer_or(Key key, std::uint32_t low, std::uint32_t high,
                                         std::uint32_t fallback) const {
  if (!has(key)) return fallback;
  return integer(key, low, high);
}

Result<float> Source::positive(Key key, float high) const {
  const std::string expected = fmt::format("a number above 0 and up to {}", high);
  ORRERY_TRY(const Scalar value, single(key, expected));
  const std::optional<double> number = as_double(value);
  // Written so that NaN fails.
  if (!number || !(*number > 0.0 && *number <= double{high})) return wrong(key, expected);
  return static_cast<float>(*number);
}

Result<float> Source::positive_or(Key key, float high, float fallback) const {
  if (!has(key)) return fallback;
  return positive(key, high);
}

Result<float> Source::from_zero_or(Key key, float high, float fallback) const {
  if (!has(key)) return fallback;
  const std::string expected = fmt::format("a number from 0 to {}", high);
  ORRERY_TRY(const Scalar value, single(key, expected));
  const std::optional<double> number = as_double(value);
  if (!number || !(*number >= 0.0 && *number <= double{high})) return wrong(key, expected);
  return static_cast<float>(*number);
}

Result<bool> Source::boolean_or(Key key, bool fallback) const {
  if (!has(key)) return fallback;
  ORRERY_TRY(const Scalar value, single(key, "true or false"));
  const auto* flag = std::get_if<bool>(&value);
  if (flag == nullptr) return wrong(key, "true or false");
  return *flag;
}

Result<std::string> Source::text_or(Key key, std::string fallback) const {
  if (!has(key)) return fallback;
  ORRERY_TRY(const Scalar value, single(key, "a string"));
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return wrong(key, "a string");
  return *text;
}

Result<std::vector<Scalar>> Source::list(Key key, const std::string& expected) const {
  std::optional<SourceValue> value = find(key);
  if (!value) return std::vector<Scalar>();
  if (!value->is_list || value->items.size() != value->size) return wrong(key, expected);
  return std::move(value->items);
}

Result<std::vector<float>> Source::numbers(Key key) const {
  constexpr const char* kExpected = "a list of numbers";
  ORRERY_TRY(const std::vector<Scalar> items, list(key, kExpected));
  std::vector<float> numbers;
  for (const Scalar& item : items) {
    const std::optional<double> number = as_double(item);
    if (!number || std::isnan(*number)) return wrong(key, kExpected);
    numbers.push_back(static_cast<float>(*number));
  }
  return numbers;
}

Result<std::vector<float>> Source::floats(Key key) const {
  ORRERY_TRY(std::vector<float> all, numbers(key));
  const auto finite = [](float f) { return std::isfinite(f); };
  if (!std::ranges::all_of(all, finite)) return wrong(key, "a list of finite numbers");
  return all;
}

Result<std::vector<std::uint32_t>> Source::integers(Key key, std::uint32_t high) const {
  const std::string expected = fmt::format("a list of integers from 0 to {}", high);
  ORRERY_TRY(const std::vector<Scalar> items, list(key, expected));
  std::vector<std::uint32_t> numbers;
  for (const Scalar& item : items) {
    const auto* number = std::get_if<std::int64_t>(&item);
    if (number == nullptr || *number < 0 || *number > std::int64_t{high})
      return wrong(key, expected);
    numbers.push_back(static_cast<std::uint32_t>(*number));
  }
  return numbers;
}

Result<std::vector<bool>> Source::booleans(Key key) const {
  constexpr const char* kExpected = "a list of booleans";
  ORRERY_TRY(const std::vector<Scalar> items, list(key, kExpected));
  std::vector<bool> flags;
  for (const Scalar& item : items) {
    if (const auto* flag = std::get_if<bool>(&item); flag != nullptr) {
      flags.push_back(*flag);
      continue;
    }
    const auto* number = std::get_if<std::int64_t>(&item);
    if (number == nullptr || (*number != 0 && *number != 1)) return wrong(key, kExpected);
    flags.push_back(*number == 1);
  }
  return flags;
}

Result<std::vector<std::string>> Source::texts(Key key) const {
  constexpr const char* kExpected = "a list of strings";
  ORRERY_TRY(const std::vector<Scalar> items, list(key, kExpected));
  std::vector<std::string> texts;
  for (const Scalar& item : items) {
    const auto* text = std::get_if<std::string>(&item);
    if (text == nullptr) return wrong(key, kExpected);
    texts.push_back(*text);
  }
  return texts;
}

}  // namespace orrery::model
