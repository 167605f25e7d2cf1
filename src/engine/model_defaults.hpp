// What a model's files say about how to use it: sampling defaults and the chat template.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "engine/sampler_params.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::engine {

// generation_config.json or GGUF's general.sampling keys over the engine's own defaults. A value
// that cannot be used is left out, and `warnings` says so.
SamplerParams sampling_defaults(const storage::Checkpoint& checkpoint,
                                std::vector<std::string>& warnings);

// The Jinja source: GGUF's tokenizer.chat_template, chat_template.jinja, or chat_template of
// tokenizer_config.json (a string, or a list of named ones: "default"). Empty when there is none.
// E_TEMPLATE when the file has one that is no text.
Result<std::string> chat_template_source(const storage::Checkpoint& checkpoint);

}  // namespace orrery::engine
