// The handlers of all routes, one file for each family of them (see routes.cpp). An error that one
// returns becomes the reply, in the route's dialect.
#pragma once

#include <memory>

#include "server/app.hpp"

namespace orrery::server {

using CallPtr = std::shared_ptr<Call>;

// openai_chat.cpp, openai_completions.cpp
ApiStatus openai_chat(App& app, const CallPtr& call);
ApiStatus openai_completions(App& app, const CallPtr& call);
// openai_responses.cpp
ApiStatus openai_responses(App& app, const CallPtr& call);
// openai_embeddings.cpp
ApiStatus openai_embeddings(App& app, const CallPtr& call);
// openai_models.cpp
ApiStatus openai_models(App& app, const CallPtr& call);
ApiStatus openai_model(App& app, const CallPtr& call);
// anthropic.cpp
ApiStatus anthropic_messages(App& app, const CallPtr& call);
ApiStatus anthropic_count_tokens(App& app, const CallPtr& call);
// ollama_chat.cpp
ApiStatus ollama_chat(App& app, const CallPtr& call);
ApiStatus ollama_generate(App& app, const CallPtr& call);
// ollama_models.cpp
ApiStatus ollama_tags(App& app, const CallPtr& call);
ApiStatus ollama_ps(App& app, const CallPtr& call);
ApiStatus ollama_version(App& app, const CallPtr& call);
ApiStatus ollama_show(App& app, const CallPtr& call);
ApiStatus ollama_embed(App& app, const CallPtr& call);
ApiStatus ollama_unsupported(App& app, const CallPtr& call);
// ollama_admin.cpp
ApiStatus ollama_pull(App& app, const CallPtr& call);
ApiStatus ollama_delete(App& app, const CallPtr& call);
// native.cpp
ApiStatus native_props(App& app, const CallPtr& call);
ApiStatus native_tokenize(App& app, const CallPtr& call);
ApiStatus native_detokenize(App& app, const CallPtr& call);
ApiStatus native_apply_template(App& app, const CallPtr& call);
// native_completion.cpp, native_infill.cpp
ApiStatus native_completion(App& app, const CallPtr& call);
ApiStatus native_infill(App& app, const CallPtr& call);
// native_slots.cpp
ApiStatus native_slots(App& app, const CallPtr& call);
ApiStatus native_slot_action(App& app, const CallPtr& call);
// lora.cpp
ApiStatus lora_adapters(App& app, const CallPtr& call);
ApiStatus lora_set_adapters(App& app, const CallPtr& call);
// rerank.cpp
ApiStatus rerank(App& app, const CallPtr& call);
// status.cpp
ApiStatus health(App& app, const CallPtr& call);
ApiStatus metrics(App& app, const CallPtr& call);
ApiStatus openapi(App& app, const CallPtr& call);

}  // namespace orrery::server
