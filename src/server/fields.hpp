// Typed access to the fields of a request. An absent field and null are the same: the default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api_error.hpp"

namespace orrery::server {

// The member, or null when it is absent or null itself.
const Json* find(const Json& object, std::string_view name);

// Each refuses, with 400 and the name, what is of another type or out of the range (both ends
// belong to it). Whole numbers may be written as 3.0.
ApiResult<std::optional<double>> get_number(const Json& object, std::string_view name, double least,
                                            double most);
ApiResult<std::optional<std::int64_t>> get_integer(const Json& object, std::string_view name,
                                                   std::int64_t least, std::int64_t most);
ApiResult<bool> get_bool(const Json& object, std::string_view name, bool otherwise);
ApiResult<std::optional<std::string>> get_string(const Json& object, std::string_view name,
                                                 std::size_t most_bytes);
// A JSON number, whatever its form, as a whole one; nothing if it is none.
std::optional<std::int64_t> whole_number(const Json& value);

// E_JSON or not an object: 400.
ApiResult<Json> parse_object(std::string_view body);

}  // namespace orrery::server
