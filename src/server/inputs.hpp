// Prompts that are texts or lists of token ids.
#pragma once

#include <string_view>
#include <vector>

#include "server/fields.hpp"
#include "server/models.hpp"

namespace orrery::server {

inline constexpr std::size_t kMaxInputs = 2048;

// A string, a list of strings, a list of ids, or a list of such lists; at least one, none empty.
// Ids outside of the vocabulary, mixed types and longer lists: 400. Texts are encoded with
// `options`.
ApiResult<std::vector<std::vector<text::TokenId>>> parse_inputs(const Json& body,
                                                                std::string_view name,
                                                                const ServedModel& model,
                                                                text::EncodeOptions options);

}  // namespace orrery::server
