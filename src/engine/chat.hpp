// From a conversation to the text or the tokens that the model continues.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/model.hpp"
#include "text/chat_template.hpp"

namespace orrery::engine {

// The template's variables from JSON text: an array counts as `messages`, an object is taken as it
// is; add_generation_prompt is added where absent. E_JSON for anything else.
Result<text::Json> parse_conversation(std::string_view conversation_json,
                                      bool add_generation_prompt);

// Both set the token variables (bos_token, ...) as the tokenizer has them. Errors: those of
// Model::chat_template() and of rendering.
Result<std::string> render_chat(const Model& model, text::Json variables);
// Special tokens come from the template alone.
Result<std::vector<text::TokenId>> chat_tokens(const Model& model, text::Json variables);

}  // namespace orrery::engine
