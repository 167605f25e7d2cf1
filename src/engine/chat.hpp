// From a conversation to the tokens that the model continues.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/model.hpp"
#include "text/chat_template.hpp"

namespace orrery::engine {

// The template's variables: an array counts as `messages`, an object is taken as it is.
// add_generation_prompt, bos_token and eos_token are added where absent. E_JSON for anything else.
Result<text::Json> chat_variables(const Model& model, const text::Json& conversation,
                                  bool add_generation_prompt);
// The same from JSON text.
Result<text::Json> parse_conversation(const Model& model, std::string_view conversation_json,
                                      bool add_generation_prompt);

// The rendered conversation as tokens; special tokens come from the template alone. Errors: those
// of Model::chat_template() and of rendering.
Result<std::vector<text::TokenId>> chat_tokens(const Model& model, const text::Json& variables);

}  // namespace orrery::engine
