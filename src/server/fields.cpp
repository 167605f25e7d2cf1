#include "server/fields.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace orrery::server {
namespace {

std::unexpected<ApiError> wrong(std::string_view name, std::string_view what) {
  return refuse(400, fmt::format("{} must be {}", name, what), std::string(name), "invalid_value");
}

}  // namespace

const Json* find(const Json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > INT64_MAX) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (number != std::floor(number) || std::fabs(number) > 9e15) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

ApiResult<std::optional<double>> get_number(const Json& object, std::string_view name, double least,
                                            double most) {
  const Json* value = find(object, name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= least && number <= most)) {
    return wrong(name, fmt::format("a number from {} to {}", least, most));
  }
  return number;
}

ApiResult<std::optional<std::int64_t>> get_integer(const Json& object, std::string_view name,
                                                   std::int64_t least, std::int64_t most) {
  const Json* value = find(object, name);
  if (value == nullptr) return std::nullopt;
  const auto number = whole_number(*value);
  if (!number || *number < least || *number > most) {
    return wrong(name, fmt::format("a whole number from {} to {}", least, most));
  }
  return number;
}

ApiResult<bool> get_bool(const Json& object, std::string_view name, bool otherwise) {
  const Json* value = find(object, name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return wrong(name, "true or false");
  return value->get<bool>();
}

ApiResult<std::optional<std::string>> get_string(const Json& object, std::string_view name,
                                                 std::size_t most_bytes) {
  const Json* value = find(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong(name, "a string");
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > most_bytes) return wrong(name, fmt::format("at most {} bytes", most_bytes));
  return text;
}

ApiResult<Json> parse_object(std::string_view body) {
  auto parsed = parse_json(body);
  if (!parsed) return std::unexpected(api_error(parsed.error()));
  if (!parsed->is_object())
    return refuse(400, "the request must be a JSON object", "", "invalid_json");
  return std::move(*parsed);
}

}  // namespace orrery::server
