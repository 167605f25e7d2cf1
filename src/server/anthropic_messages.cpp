#include "server/anthropic_messages.hpp"

#include <fmt/format.h>

#include <utility>

namespace orrery::server {
namespace {

std::unexpected<ApiError> wrong(std::string place, std::string_view what) {
  return refuse(400, fmt::format("{} {}", place, what), place, "invalid_messages");
}

std::string_view text_of(const Json& object, std::string_view name) {
  const Json* value = find(object, name);
  return value != nullptr && value->is_string()
             ? std::string_view(value->get_ref<const std::string&>())
             : std::string_view{};
}

// A text, or blocks of texts joined by line ends.
ApiResult<std::string> plain_text(const Json& content, const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return wrong(place, "must be a text or a list of text blocks");
  std::string text;
  for (const Json& block : content) {
    if (text_of(block, "type") != "text" || find(block, "text") == nullptr) {
      return wrong(place, "holds a block that is no text; the model reads texts alone");
    }
    if (!text.empty()) text += '\n';
    text += text_of(block, "text");
  }
  return text;
}

// What one message becomes: results of tools first, as messages of their own.
struct Parts {
  std::string text, reasoning;
  Json calls = Json::array(), results = Json::array();
};

ApiStatus add_block(const Json& block, const std::string& place, Parts& parts) {
  const std::string_view type = text_of(block, "type");
  if (type == "text") {
    if (!parts.text.empty()) parts.text += '\n';
    parts.text += text_of(block, "text");
  } else if (type == "thinking") {
    parts.reasoning += text_of(block, "thinking");
  } else if (type == "tool_use") {
    const Json* input = find(block, "input");
    if (text_of(block, "name").empty()) return wrong(place, "has a tool_use without a name");
    Json call = Json::object();
    call["id"] = text_of(block, "id");
    call["type"] = "function";
    call["function"]["name"] = text_of(block, "name");
    call["function"]["arguments"] = input == nullptr ? "{}" : to_text(*input);
    parts.calls.push_back(std::move(call));
  } else if (type == "tool_result") {
    const Json* content = find(block, "content");
    Json result = Json::object();
    result["role"] = "tool";
    result["tool_call_id"] = text_of(block, "tool_use_id");
    result["content"] = "";
    if (content != nullptr) {
      ORRERY_TRY(const std::string text, plain_text(*content, place));
      result["content"] = text;
    }
    parts.results.push_back(std::move(result));
  } else if (type != "redacted_thinking") {
    return wrong(place, "holds a block of a kind that the model cannot read");
  }
  return {};
}

ApiStatus add_message(const Json& message, std::size_t index, Json& messages) {
  const std::string place = fmt::format("messages[{}]", index);
  const std::string_view role = text_of(message, "role");
  const Json* content = find(message, "content");
  if (role != "user" && role != "assistant") return wrong(place, "must be of user or assistant");
  if (content == nullptr) return wrong(place, "has no content");
  Parts parts;
  if (content->is_string()) {
    parts.text = content->get<std::string>();
  } else if (content->is_array()) {
    for (const Json& block : *content) ORRERY_TRY_VOID(add_block(block, place, parts));
  } else {
    return wrong(place, "has a content that is no text and no list of blocks");
  }
  for (Json& result : parts.results) messages.push_back(std::move(result));
  if (parts.text.empty() && parts.calls.empty() && !parts.results.empty()) return {};
  Json out = Json::object();
  out["role"] = role;
  out["content"] = parts.text;
  if (!parts.reasoning.empty()) out["reasoning_content"] = parts.reasoning;
  if (!parts.calls.empty()) out["tool_calls"] = std::move(parts.calls);
  messages.push_back(std::move(out));
  return {};
}

}  // namespace

ApiResult<Conversation> parse_anthropic(const Json& body) {
  Conversation conversation;
  if (const Json* system = find(body, "system")) {
    ORRERY_TRY(const std::string text, plain_text(*system, "system"));
    Json message = Json::object();
    message["role"] = "system";
    message["content"] = text;
    if (!text.empty()) conversation.messages.push_back(std::move(message));
  }
  const Json* messages = find(body, "messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return wrong("messages", "must be a list of at least one message");
  }
  if (messages->size() > kMaxMessages) return wrong("messages", "has too many entries");
  for (std::size_t i = 0; i < messages->size(); ++i) {
    ORRERY_TRY_VOID(add_message((*messages)[i], i, conversation.messages));
  }
  return conversation;
}

}  // namespace orrery::server
