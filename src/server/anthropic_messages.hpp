// Anthropic's requests as conversations in OpenAI's form.
#pragma once

#include "server/messages.hpp"

namespace orrery::server {

// `system` (a text or blocks of it) and `messages`, whose content is a text or blocks: text,
// thinking, tool_use and tool_result. 400 with the place for anything else.
ApiResult<Conversation> parse_anthropic(const Json& body);

}  // namespace orrery::server
