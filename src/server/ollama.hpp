// What Ollama's endpoints have in common.
#pragma once

#include <chrono>
#include <string>

#include "server/forms.hpp"
#include "server/handlers.hpp"
#include "server/sampling.hpp"

namespace orrery::server {

// RFC 3339 with nanoseconds, in UTC.
std::string ollama_time(std::chrono::system_clock::time_point moment);
std::string ollama_time();  // now

struct OllamaOptions {
  std::shared_ptr<ServedModel> model;
  GenerationOptions generation;
  AnswerForm form;
  bool stream = true;
};
// model, stream, options, format, tools, and what is not supported (images, suffix, template: 501).
ApiResult<OllamaOptions> parse_ollama_options(const Models& models, const Json& body);

}  // namespace orrery::server
