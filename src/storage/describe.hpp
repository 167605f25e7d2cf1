// Text of error messages: bytes of a file are never printed raw, and never many of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace orrery::storage {

// In double quotes, with \xNN for everything but printable ASCII; at most `limit` bytes of text,
// then "...".
std::string in_quotes(std::string_view bytes, std::size_t limit = 64);

// The last component of a path, escaped and bounded: how messages name a file.
std::string file_label(std::string_view path);

// "LABEL: at byte N: TEXT" as an error of this kind.
std::unexpected<Error> fail_at(std::string_view kind, std::string_view label, std::uint64_t byte,
                               std::string_view text);

}  // namespace orrery::storage
