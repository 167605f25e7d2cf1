// The attribute= of filters: "name", "a.b", "a.0", or an integer.
#pragma once

#include <optional>

#include "text/jinja_interp.hpp"

namespace orrery::text::jinja {

class AttributePath {
 public:
  // None or absent: the item itself.
  AttributePath(Interpreter& interpreter, const Value& attribute,
                std::optional<Value> fallback = {});
  Value get(Interpreter& interpreter, Value item) const;

 private:
  ValueList parts_;
  std::optional<Value> fallback_;
};

// Several paths separated by commas, for sort.
std::vector<AttributePath> attribute_paths(Interpreter& interpreter, const Value& attribute);

// Strings compare without case unless a filter is told otherwise.
Value fold_case(Interpreter& interpreter, const Value& value);

}  // namespace orrery::text::jinja
