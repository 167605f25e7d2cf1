// POST /v1/responses, without a memory of its own: each request brings the whole conversation.
#include <fmt/format.h>

#include <utility>

#include "server/forms.hpp"
#include "server/messages.hpp"
#include "server/responses_sink.hpp"

namespace orrery::server {
namespace {

std::unexpected<ApiError> wrong(std::size_t index, std::string_view what) {
  return refuse(400, fmt::format("input[{}] {}", index, what), fmt::format("input[{}]", index),
                "invalid_value");
}

std::string string_of(const Json& object, std::string_view name) {
  const Json* value = find(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

Json message_of(std::string_view role, Json content) {
  Json message = Json::object();
  message["role"] = role;
  message["content"] = std::move(content);
  return message;
}

// Calls that follow each other are one message of the assistant.
void add_call(const Json& item, Json& messages) {
  Json call = Json::object();
  call["id"] = string_of(item, "call_id");
  call["type"] = "function";
  call["function"]["name"] = string_of(item, "name");
  call["function"]["arguments"] = string_of(item, "arguments");
  if (messages.empty() || !messages.back().contains("tool_calls")) {
    messages.push_back(message_of("assistant", ""));
    messages.back()["tool_calls"] = Json::array();
  }
  messages.back()["tool_calls"].push_back(std::move(call));
}

ApiStatus add_item(const Json& item, std::size_t index, Json& messages) {
  if (!item.is_object()) return wrong(index, "is no object");
  const std::string type = string_of(item, "type");
  if (type == "reasoning") return {};
  if (type == "function_call") {
    add_call(item, messages);
    return {};
  }
  if (type == "function_call_output") {
    const Json* output = find(item, "output");
    if (output == nullptr) return wrong(index, "has no output");
    Json message = message_of("tool", *output);
    message["tool_call_id"] = string_of(item, "call_id");
    messages.push_back(std::move(message));
    return {};
  }
  if (!type.empty() && type != "message") return wrong(index, "is of a type that is not supported");
  const Json* content = find(item, "content");
  messages.push_back(message_of(string_of(item, "role"), content == nullptr ? Json() : *content));
  return {};
}

ApiResult<Json> parse_input(const Json& body) {
  Json messages = Json::array();
  const std::string instructions = string_of(body, "instructions");
  if (!instructions.empty()) messages.push_back(message_of("system", instructions));
  const Json* input = find(body, "input");
  if (input != nullptr && input->is_string()) {
    messages.push_back(message_of("user", *input));
  } else if (input != nullptr && input->is_array() && input->size() <= kMaxMessages) {
    for (std::size_t i = 0; i < input->size(); ++i) {
      ORRERY_TRY_VOID(add_item((*input)[i], i, messages));
    }
  } else {
    return refuse(400,
                  fmt::format("input must be a text or a list of at most {} items", kMaxMessages),
                  "input", "invalid_value");
  }
  Json chat = Json::object();
  chat["messages"] = std::move(messages);
  return parse_messages(chat);
}

// The request's form in the words of chats. Tools that are no functions are another program's.
ApiResult<AnswerForm> parse_responses_form(const Json& body) {
  Json chat = Json::object();
  for (const char* name : {"tool_choice", "parallel_tool_calls"}) {
    if (const Json* value = find(body, name)) chat[name] = *value;
  }
  const Json* text = find(body, "text");
  const Json* format = text == nullptr ? nullptr : find(*text, "format");
  if (format != nullptr) chat["response_format"] = *format;
  const Json* tools = find(body, "tools");
  if (tools == nullptr) return parse_form(chat);
  if (!tools->is_array()) return refuse(400, "tools must be a list", "tools", "invalid_value");
  chat["tools"] = Json::array();
  for (const Json& tool : *tools) {
    if (string_of(tool, "type") != "function") continue;
    Json function = Json::object();
    for (const char* name : {"name", "description", "parameters"}) {
      if (const Json* value = find(tool, name)) function[name] = *value;
    }
    Json entry = Json::object();
    entry["type"] = "function";
    entry["function"] = std::move(function);
    chat["tools"].push_back(std::move(entry));
  }
  return parse_form(chat);
}

// {"effort": ...} in the words of chats.
Json reasoning_of(const Json& body) {
  Json chat = Json::object();
  const Json* reasoning = find(body, "reasoning");
  const Json* effort = reasoning == nullptr ? nullptr : find(*reasoning, "effort");
  if (effort != nullptr) chat["reasoning_effort"] = *effort;
  return chat;
}

// What a response repeats of its request.
Json echo_of(const Json& body, const AnswerForm& form) {
  Json echo = Json::object();
  for (const char* name :
       {"instructions", "max_output_tokens", "temperature", "top_p", "text", "reasoning", "user"}) {
    const Json* value = find(body, name);
    echo[name] = value == nullptr ? Json(nullptr) : *value;
  }
  if (echo["text"].is_null()) echo["text"]["format"]["type"] = "text";
  const Json* metadata = find(body, "metadata");
  echo["metadata"] = metadata == nullptr ? Json::object() : *metadata;
  const Json* choice = find(body, "tool_choice");
  echo["tool_choice"] = choice == nullptr ? Json("auto") : *choice;
  const Json* tools = find(body, "tools");
  echo["tools"] = tools == nullptr ? Json::array() : *tools;
  echo["parallel_tool_calls"] = form.rules.parallel;
  echo["truncation"] = "disabled";
  return echo;
}

}  // namespace

ApiStatus openai_responses(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  if (find(body, "previous_response_id") != nullptr) {
    return refuse(400, "responses are not kept here: send the whole conversation",
                  "previous_response_id", "not_supported");
  }
  ORRERY_TRY(const auto name, get_string(body, "model", 1U << 20));
  ORRERY_TRY(const auto model, app.models.find_writer(name.value_or("")));
  Prompt prompt{model.get(), {}, {}, call->domain, {}, nullptr};
  ORRERY_TRY(prompt.options.sampling, parse_sampling(body, *model));
  ORRERY_TRY(const auto most, get_integer(body, "max_output_tokens", 1, INT32_MAX));
  if (most) prompt.options.max_tokens = static_cast<std::uint32_t>(*most);
  ORRERY_TRY(const bool stream, get_bool(body, "stream", false));
  ORRERY_TRY(const AnswerForm form, parse_responses_form(body));
  Conversation conversation;
  ORRERY_TRY(conversation.messages, parse_input(body));
  ORRERY_TRY(conversation.variables, parse_template_variables(reasoning_of(body)));
  conversation.tools = form.tools;
  ORRERY_TRY(prompt.tokens, chat_tokens(*model, conversation));
  ORRERY_TRY_VOID(read_chat(form, prompt));
  auto sink = std::make_shared<ResponsesSink>(app, call, model->id, echo_of(body, form), stream);
  ORRERY_TRY_VOID(generate(std::move(prompt), std::move(sink), *call, app.metrics));
  if (stream) begin_stream(app, *call, "text/event-stream", ":\n\n");
  return {};
}

}  // namespace orrery::server
