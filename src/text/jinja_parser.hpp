// Tokens -> syntax tree, with jinja2's grammar and precedence.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.hpp"
#include "text/jinja_ast.hpp"

namespace orrery::text::jinja {

// E_TEMPLATE: a fault of the source, with line and column; also more than 1 MiB of source, 100,000
// nodes or 128 levels of nesting.
Result<std::shared_ptr<const Program>> parse(std::string_view source);

}  // namespace orrery::text::jinja
