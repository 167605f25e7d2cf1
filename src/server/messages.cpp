#include "server/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "text/chat.hpp"

namespace orrery::server {
namespace {

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};
constexpr std::size_t kMaxToolCalls = 256;  // of one message

std::unexpected<ApiError> wrong(std::size_t index, std::string_view what) {
  return refuse(400, fmt::format("messages[{}] {}", index, what),
                fmt::format("messages[{}]", index), "invalid_messages");
}

bool is_string(const Json* value) {
  return value != nullptr && value->is_string();
}

ApiStatus check_content(const Json& content, std::size_t index) {
  if (content.is_string()) return {};
  if (!content.is_array()) return wrong(index, "has a content that is no string or list of parts");
  for (const Json& part : content) {
    const Json* type = find(part, "type");
    if (!is_string(type)) return wrong(index, "has a part without a type");
    const auto& name = type->get_ref<const std::string&>();
    if (name != "text" && name != "input_text" && name != "output_text" && name != "refusal") {
      return wrong(index, "has a part that is no text; the model reads texts alone");
    }
    if (!is_string(find(part, name == "refusal" ? "refusal" : "text"))) {
      return wrong(index, "has a part without its text");
    }
  }
  return {};
}

ApiStatus check_tool_calls(const Json& calls, std::size_t index) {
  if (!calls.is_array() || calls.size() > kMaxToolCalls) {
    return wrong(index,
                 fmt::format("has tool_calls that are no list of at most {}", kMaxToolCalls));
  }
  for (const Json& call : calls) {
    const Json* function = find(call, "function");
    if (function == nullptr || !is_string(find(*function, "name"))) {
      return wrong(index, "has a tool call without a function and its name");
    }
    const Json* arguments = find(*function, "arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
      return wrong(index, "has a tool call whose arguments are no JSON text");
    }
  }
  return {};
}

// Parts of one text each become that text, with the type that templates know.
Json plain_content(const Json& content) {
  if (!content.is_array()) return content;
  Json parts = Json::array();
  for (const Json& part : content) {
    Json text = Json::object();
    text["type"] = "text";
    text["text"] = *find(part, part["type"] == "refusal" ? "refusal" : "text");
    parts.push_back(std::move(text));
  }
  if (parts.empty()) return "";
  return parts.size() == 1 ? parts[0]["text"] : parts;
}

ApiResult<Json> parse_message(const Json& message, std::size_t index) {
  if (!message.is_object()) return wrong(index, "is no object");
  const Json* role = find(message, "role");
  if (!is_string(role) ||
      std::ranges::find(kRoles, role->get_ref<const std::string&>()) == kRoles.end()) {
    return wrong(index, "must have a role: system, developer, user, assistant or tool");
  }
  Json out = message;
  if (*role == "developer") out["role"] = "system";
  const Json* content = find(message, "content");
  const Json* calls = find(message, "tool_calls");
  if (content == nullptr && calls == nullptr && *role != "assistant") {
    return wrong(index, "has no content");
  }
  if (content != nullptr) {
    ORRERY_TRY_VOID(check_content(*content, index));
    out["content"] = plain_content(*content);
  }
  if (calls != nullptr) {
    ORRERY_TRY_VOID(check_tool_calls(*calls, index));
  } else {
    out.erase("tool_calls");
  }
  // Two names for the same thing; templates know the first.
  const Json* reasoning = find(message, "reasoning");
  if (is_string(reasoning) && find(message, "reasoning_content") == nullptr) {
    out["reasoning_content"] = *reasoning;
  }
  return out;
}

Json template_variables(const Conversation& conversation) {
  Json variables = conversation.variables;
  variables["messages"] = conversation.messages;
  if (!conversation.tools.empty()) variables["tools"] = conversation.tools;
  variables["add_generation_prompt"] = true;
  return variables;
}

ApiResult<const text::ChatTemplate*> template_of(const ServedModel& model) {
  const auto found = model.model->chat_template();
  if (!found) {
    return refuse(501, "the model has no chat template that works; use /v1/completions", "",
                  "no_chat_template");
  }
  return *found;
}

}  // namespace

ApiResult<Json> parse_messages(const Json& body) {
  const Json* messages = find(body, "messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return refuse(400, "messages must be a list of at least one message", "messages",
                  "invalid_messages");
  }
  if (messages->size() > kMaxMessages) {
    return refuse(400, fmt::format("messages has more than {} entries", kMaxMessages), "messages",
                  "invalid_messages");
  }
  Json out = Json::array();
  for (std::size_t i = 0; i < messages->size(); ++i) {
    ORRERY_TRY(Json message, parse_message((*messages)[i], i));
    out.push_back(std::move(message));
  }
  return out;
}

ApiResult<Json> parse_template_variables(const Json& body) {
  if (find(body, "chat_template") != nullptr) {
    return refuse(400, "a request cannot bring a template of its own", "chat_template",
                  "invalid_value");
  }
  Json variables = Json::object();
  ORRERY_TRY(const auto effort, get_string(body, "reasoning_effort", 16));
  if (effort) {
    variables["reasoning_effort"] = *effort;
    if (*effort == "none") variables["enable_thinking"] = false;
  }
  const Json* given = find(body, "chat_template_kwargs");
  if (given == nullptr) return variables;
  const auto refused = [](std::string_view what) {
    return refuse(400, fmt::format("chat_template_kwargs {}", what), "chat_template_kwargs",
                  "invalid_value");
  };
  if (!given->is_object()) return refused("must be an object");
  for (const auto& [name, value] : given->items()) {
    const bool is_flag = name == "enable_thinking" || name == "thinking";
    if ((is_flag && value.is_boolean()) || (name == "reasoning_effort" && value.is_string())) {
      variables[name] = value;
    } else {
      return refused("may hold enable_thinking, thinking and reasoning_effort");
    }
  }
  return variables;
}

ApiResult<std::vector<text::TokenId>> chat_tokens(const ServedModel& model,
                                                  const Conversation& conversation) {
  ORRERY_TRY(const text::ChatTemplate* chat, template_of(model));
  auto tokens =
      text::encode_chat(model.model->tokenizer(), *chat, template_variables(conversation));
  if (!tokens) return std::unexpected(api_error(tokens.error()));
  return std::move(*tokens);
}

ApiResult<std::string> chat_text(const ServedModel& model, const Conversation& conversation) {
  ORRERY_TRY(const text::ChatTemplate* chat, template_of(model));
  auto text = text::render_chat(model.model->tokenizer(), *chat, template_variables(conversation));
  if (!text) return std::unexpected(api_error(text.error()));
  return std::move(*text);
}

}  // namespace orrery::server
