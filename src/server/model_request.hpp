// What happens between a request and its handler: the model that it names comes into memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "server/handlers.hpp"
#include "server/worker.hpp"

namespace orrery::server {

struct WantedModel {
  std::string name;
  std::optional<Keep> keep;  // Ollama's keep_alive
  bool streams = false;      // it may get comments while it waits
};

// Of a POST's body; null where it cannot be read: what is wrong with it is the handler's to say.
// Nothing when the handler needs no model, because it will refuse the request or is asked to let
// the model go. 400 for a keep_alive that is none.
ApiResult<std::optional<WantedModel>> wanted_model(const Call& call, const Json* body);

// The model of a slot: that of the address, else the body's.
ApiResult<std::string> model_of_slot(const Call& call, const Json* body);

// The value of a parameter of the address, or ""; values that need no decoding.
std::string_view query_value(std::string_view query, std::string_view name);

// Calls `run` at once, or on the worker when the model is there; the call then holds a lease. Ends
// the call with an error when the model cannot be had.
void with_model(App& app, const CallPtr& call, Worker& worker, std::function<void()> run);

// Ollama's way to say "let it go": no prompt, and a keep_alive of 0.
bool asks_to_unload(const Call& call, const Json& body);

}  // namespace orrery::server
