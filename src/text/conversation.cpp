#include "text/conversation.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace orrery::text {

namespace {

Json* member(Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool has_text(Json& object, const char* name, std::string_view text) {
  const Json* value = member(object, name);
  return value != nullptr && value->is_string() && value->get_ref<const std::string&>() == text;
}

// Visits the arguments of every tool call, in order.
template <class Visit>
void for_each_arguments(Json& messages, Visit visit) {
  if (!messages.is_array()) return;
  for (Json& message : messages) {
    Json* calls = member(message, "tool_calls");
    if (calls == nullptr || !calls->is_array()) continue;
    for (Json& call : *calls) {
      Json* function = member(call, "function");
      Json* arguments = member(function == nullptr ? call : *function, "arguments");
      if (arguments != nullptr) visit(*arguments);
    }
  }
}

// Python's way to print a part of a message: the template did not expect parts.
bool prints_parts(const std::vector<RenderedPiece>& pieces) {
  return std::any_of(pieces.begin(), pieces.end(), [](const RenderedPiece& piece) {
    return !piece.is_markup && piece.text.find("{'type': 'text', 'text': ") != std::string::npos;
  });
}

bool has_parts(Json& messages) {
  return std::any_of(messages.begin(), messages.end(), [](Json& message) {
    const Json* content = member(message, "content");
    return content != nullptr && content->is_array();
  });
}

}  // namespace

bool parse_arguments(Json& messages, Originals& originals) {
  bool changed = false;
  for_each_arguments(messages, [&](Json& arguments) {
    originals.emplace_back();
    if (!arguments.is_string()) return;
    const auto& text = arguments.get_ref<const std::string&>();
    Json parsed = text.empty() ? Json::object() : Json::parse(text, nullptr, false);
    if (!parsed.is_object()) return;
    originals.back() = text;
    arguments = std::move(parsed);
    changed = true;
  });
  return changed;
}

bool restore_arguments(Json& messages, const Originals& originals) {
  std::size_t at = 0;
  bool changed = false;
  for_each_arguments(messages, [&](Json& arguments) {
    if (at < originals.size() && originals[at]) {
      arguments = *originals[at];
      changed = true;
    }
    ++at;
  });
  return changed;
}

bool fill_content(Json& messages) {
  bool changed = false;
  for (Json& message : messages) {
    if (!message.is_object()) continue;
    const Json* content = member(message, "content");
    if (content != nullptr && !content->is_null()) continue;
    message["content"] = "";
    changed = true;
  }
  return changed;
}

bool join_text_parts(Json& messages) {
  bool changed = false;
  for (Json& message : messages) {
    Json* content = member(message, "content");
    if (content == nullptr || !content->is_array()) continue;
    const bool all_text = std::all_of(content->begin(), content->end(), [](Json& part) {
      const Json* text = member(part, "text");
      return has_text(part, "type", "text") && text != nullptr && text->is_string();
    });
    if (!all_text) continue;
    std::string joined;
    for (Json& part : *content) {
      if (&part != &content->front()) joined += '\n';
      joined += member(part, "text")->get_ref<const std::string&>();
    }
    *content = std::move(joined);
    changed = true;
  }
  return changed;
}

bool merge_system(Json& messages) {
  if (!messages.is_array() || messages.size() < 2) return false;
  Json& system = messages[0];
  Json& user = messages[1];
  Json* instruction = member(system, "content");
  Json* content = member(user, "content");
  const bool fits = has_text(system, "role", "system") && has_text(user, "role", "user") &&
                    instruction != nullptr && instruction->is_string() && content != nullptr &&
                    content->is_string();
  if (!fits) return false;
  *content =
      instruction->get_ref<const std::string&>() + "\n\n" + content->get_ref<const std::string&>();
  messages.erase(messages.begin());
  return true;
}

Result<std::vector<RenderedPiece>> render_conversation(const ChatTemplate& chat, Json variables,
                                                       const RenderLimits& limits) {
  if (!variables.is_object()) {
    return fail("E_RENDER", "chat template: the variables are not an object");
  }
  for (const char* name : {"tools", "documents"}) {
    if (!variables.contains(name)) variables[name] = nullptr;
  }
  if (!variables.contains("messages") || !variables["messages"].is_array()) {
    return chat.render_pieces(variables, limits);
  }
  Json& messages = variables["messages"];
  Originals originals;
  parse_arguments(messages, originals);
  const auto accepted = [&](const Result<std::vector<RenderedPiece>>& pieces) {
    return pieces.has_value() && !(has_parts(messages) && prints_parts(*pieces));
  };
  auto first = chat.render_pieces(variables, limits);
  if (accepted(first)) return first;
  const Json parsed = messages;
  if (restore_arguments(messages, originals)) {
    auto next = chat.render_pieces(variables, limits);
    if (accepted(next)) return next;
    messages = parsed;
  }
  const std::array<bool (*)(Json&), 3> steps{fill_content, join_text_parts, merge_system};
  for (const auto step : steps) {
    if (!step(messages)) continue;
    auto next = chat.render_pieces(variables, limits);
    if (accepted(next)) return next;
  }
  if (restore_arguments(messages, originals)) {
    auto last = chat.render_pieces(variables, limits);
    if (accepted(last)) return last;
  }
  return first;
}

}  // namespace orrery::text
