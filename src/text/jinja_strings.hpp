// String operations that filters and methods share; provenance follows every character.
#pragma once

#include <cstdint>
#include <optional>

#include "text/jinja_interp.hpp"

namespace orrery::text::jinja {

// Which ends a strip works on.
enum class Ends : std::uint8_t { both, left, right };

// `characters` absent: white space.
Text strip(const Text& text, Ends ends, const std::optional<Text>& characters);
// At most `count` replacements; negative: all.
Text replace_all(const Text& text, const Text& old, const Text& with, std::int64_t count);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
Text capitalize(const Text& text);
Text join(Interpreter& interpreter, const Text& separator, const ValueList& values, bool convert);

}  // namespace orrery::text::jinja
