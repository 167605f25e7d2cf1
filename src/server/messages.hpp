// Conversations: what clients send, checked, and the tokens that the model continues.
#pragma once

#include <string>
#include <vector>

#include "server/fields.hpp"
#include "server/models.hpp"

namespace orrery::server {

inline constexpr std::size_t kMaxMessages = 4096;

struct Conversation {
  Json messages = Json::array();    // OpenAI's form
  Json tools = Json::array();       // OpenAI's form
  Json variables = Json::object();  // of the template: enable_thinking, reasoning_effort
};

// Messages in OpenAI's form: roles from a fixed list (`developer` becomes `system`), content a
// string, null or a list of texts. 400 with the place for anything else.
ApiResult<Json> parse_messages(const Json& body);
// chat_template_kwargs and reasoning_effort. A request cannot bring a template of its own.
ApiResult<Json> parse_template_variables(const Json& body);

// 400 when the template refuses the conversation, 501 when the model has none.
ApiResult<std::vector<text::TokenId>> chat_tokens(const ServedModel& model,
                                                  const Conversation& conversation);
// The text that is tokenized.
ApiResult<std::string> chat_text(const ServedModel& model, const Conversation& conversation);

}  // namespace orrery::server
