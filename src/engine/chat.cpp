#include "engine/chat.hpp"

#include "text/chat.hpp"

namespace orrery::engine {

Result<text::Json> parse_conversation(std::string_view conversation_json,
                                      bool add_generation_prompt) {
  text::Json parsed = text::Json::parse(conversation_json, nullptr, false);
  if (parsed.is_discarded()) return fail("E_JSON", "the conversation is not valid JSON");
  text::Json variables = text::Json::object();
  if (parsed.is_array()) {
    variables["messages"] = std::move(parsed);
  } else if (parsed.is_object()) {
    variables = std::move(parsed);
  } else {
    return fail("E_JSON", "a conversation is a JSON array of messages or an object that holds one");
  }
  if (!variables.contains("add_generation_prompt")) {
    variables["add_generation_prompt"] = add_generation_prompt;
  }
  return variables;
}

Result<std::string> render_chat(const Model& model, text::Json variables) {
  ORRERY_TRY(const text::ChatTemplate* chat_template, model.chat_template());
  auto rendered = text::render_chat(model.tokenizer(), *chat_template, std::move(variables));
  if (!rendered) return fail_in(model.checkpoint().label(), rendered.error());
  return rendered;
}

Result<std::vector<text::TokenId>> chat_tokens(const Model& model, text::Json variables) {
  ORRERY_TRY(const text::ChatTemplate* chat_template, model.chat_template());
  auto tokens = text::encode_chat(model.tokenizer(), *chat_template, std::move(variables));
  if (!tokens) return fail_in(model.checkpoint().label(), tokens.error());
  return tokens;
}

}  // namespace orrery::engine
