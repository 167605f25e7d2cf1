// What a schema says about values of one type. All errors are E_SCHEMA with the place.
#pragma once

#include <functional>
#include <string>

#include "base/result.hpp"
#include "text/chat_template.hpp"
#include "text/json_text.hpp"

namespace orrery::text {

// A schema within the schema, and its place.
using SubSchema = std::function<Result<ExprId>(const Json&, const std::string&)>;

Result<ExprId> string_schema(const Json& schema, const std::string& path, JsonText& json);
Result<ExprId> number_schema(const Json& schema, bool is_integer, const std::string& path,
                             JsonText& json);
Result<ExprId> array_schema(const Json& schema, const std::string& path, JsonText& json,
                            const SubSchema& sub);
// Properties come in the order in which `properties` has them, others behind them.
Result<ExprId> object_schema(const Json& schema, const std::string& path, JsonText& json,
                             const SubSchema& sub);

// A bound on a number of things: `otherwise` where the keyword is absent.
Result<std::uint32_t> schema_count(const Json& schema, const std::string& key,
                                   std::uint32_t otherwise, const std::string& path);

}  // namespace orrery::text
