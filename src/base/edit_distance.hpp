// How unlike two short names are.
#pragma once

#include <cstddef>
#include <string_view>

namespace orrery {

// Insertions, deletions and replacements that turn a into b.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace orrery
