// JSON of requests: read strictly, written so that any bytes of a model become valid text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "text/chat_template.hpp"

namespace orrery::server {

using Json = text::Json;

inline constexpr std::size_t kMaxJsonDepth = 64;
inline constexpr std::size_t kMaxJsonKeys = 65'536;

// E_JSON: no JSON (RFC 8259, valid UTF-8, no byte order mark), a key twice in one object, a number
// that no double holds, nesting or keys beyond the limits.
Result<Json> parse_json(std::string_view text);

// One line; bytes that are no UTF-8 become U+FFFD.
std::string to_text(const Json& json);

}  // namespace orrery::server
