// Brings a schema into a form without $ref and allOf: what several schemas say of one value becomes
// one schema.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "text/chat_template.hpp"

namespace orrery::text {

// Bounds what a hostile schema can cause.
struct SchemaBudget {
  std::size_t left = 200'000;  // values looked at or copied
  // E_LIMIT when it is used up.
  Status take(std::size_t n);
};

// Title, examples and the like, which say nothing about what is valid.
bool is_annotation(std::string_view keyword);

std::unexpected<Error> schema_error(const std::string& path, const std::string& what);

// The schema that "#/..." names in `root`. E_SCHEMA for others: nothing is ever fetched.
Result<const Json*> resolve_reference(const Json& root, const Json& reference,
                                      const std::string& path);

// `schema` without $ref and allOf at its top. References of references are followed 64 times.
Result<Json> flatten_schema(const Json& root, const Json& schema, const std::string& path,
                            SchemaBudget& budget);

// What both say; both are flat. Properties and items that both describe become an allOf.
Result<Json> merge_schemas(const Json& a, const Json& b, const std::string& path);

}  // namespace orrery::text
