#include "storage/metadata.hpp"

#include <fmt/format.h>

#include <utility>

#include "storage/describe.hpp"

namespace orrery::storage {
namespace {

std::string_view kind_name(MetaArray::Kind kind) {
  switch (kind) {
    case MetaArray::Kind::strings:
      return "strings";
    case MetaArray::Kind::integers:
      return "integers";
    case MetaArray::Kind::floats:
      return "floats";
    case MetaArray::Kind::bools:
      return "bools";
  }
  std::unreachable();
}

struct Describe {
  std::string operator()(bool value) const { return value ? "the bool true" : "the bool false"; }
  std::string operator()(std::int64_t value) const { return fmt::format("the integer {}", value); }
  std::string operator()(std::uint64_t value) const { return fmt::format("the integer {}", value); }
  std::string operator()(double value) const { return fmt::format("the float {}", value); }
  std::string operator()(std::string_view value) const { return "the string " + in_quotes(value); }
  std::string operator()(const MetaArray& value) const {
    return fmt::format("an array of {} {}", value.size(), kind_name(value.kind));
  }
  std::string operator()(const PackedArray& value) const {
    return fmt::format("an array of {} {}", value.count, kind_name(value.kind));
  }
};

std::unexpected<Error> wrong(std::string_view key, const MetaValue& value,
                             std::string_view expected) {
  return fail("E_META", fmt::format("key {}: found {}, expected {}", in_quotes(key),
                                    std::visit(Describe{}, value), expected));
}

std::unexpected<Error> missing(std::string_view key, std::string_view expected) {
  return fail("E_META", fmt::format("key {}: is missing, expected {}", in_quotes(key), expected));
}

// Any integer that a T holds.
template <class T>
Result<T> to_integer(std::string_view key, const MetaValue& value, std::string_view expected) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    if (std::in_range<T>(*number)) return static_cast<T>(*number);
  } else if (const auto* natural = std::get_if<std::uint64_t>(&value)) {
    if (std::in_range<T>(*natural)) return static_cast<T>(*natural);
  }
  return wrong(key, value, expected);
}

Result<float> to_float(std::string_view key, const MetaValue& value) {
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr) return wrong(key, value, "a float");
  return static_cast<float>(*number);
}

template <class T>
Result<T> to_exactly(std::string_view key, const MetaValue& value, std::string_view expected) {
  const T* found = std::get_if<T>(&value);
  if (found == nullptr) return wrong(key, value, expected);
  return *found;
}

constexpr std::string_view kU32 = "an integer from 0 to 4294967295";

}  // namespace

std::optional<ArrayShape> array_shape(const MetaValue& value) {
  if (const auto* array = std::get_if<MetaArray>(&value)) {
    return ArrayShape{array->kind, array->size()};
  }
  if (const auto* packed = std::get_if<PackedArray>(&value)) {
    return ArrayShape{packed->kind, packed->count};
  }
  return std::nullopt;
}

const MetaValue* Metadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

bool Metadata::insert(std::string_view key, MetaValue value) {
  return values_.try_emplace(std::string(key), std::move(value)).second;
}

Result<std::uint32_t> Metadata::u32(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, kU32);
  return to_integer<std::uint32_t>(key, *value, kU32);
}

Result<std::int64_t> Metadata::i64(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, "an integer");
  return to_integer<std::int64_t>(key, *value, "an integer of 64 bits with sign");
}

Result<float> Metadata::f32(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, "a float");
  return to_float(key, *value);
}

Result<bool> Metadata::boolean(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, "a bool");
  return to_exactly<bool>(key, *value, "a bool");
}

Result<std::string_view> Metadata::string(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, "a string");
  return to_exactly<std::string_view>(key, *value, "a string");
}

Result<MetaArray> Metadata::array(std::string_view key, MetaArray::Kind kind) const {
  const std::string expected = fmt::format("an array of {}", kind_name(kind));
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, expected);
  const std::optional<ArrayShape> shape = array_shape(*value);
  if (!shape || shape->kind != kind) return wrong(key, *value, expected);
  if (const auto* packed = std::get_if<PackedArray>(value)) return packed->unpack();
  return std::get<MetaArray>(*value);
}

Result<std::uint32_t> Metadata::u32_or(std::string_view key, std::uint32_t fallback) const {
  return has(key) ? u32(key) : fallback;
}

Result<float> Metadata::f32_or(std::string_view key, float fallback) const {
  return has(key) ? f32(key) : fallback;
}

Result<bool> Metadata::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? boolean(key) : fallback;
}

Result<std::string_view> Metadata::string_or(std::string_view key,
                                             std::string_view fallback) const {
  return has(key) ? string(key) : fallback;
}

}  // namespace orrery::storage
