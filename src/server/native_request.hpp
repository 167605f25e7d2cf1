// What llama.cpp's own clients ask for: the fields of /completion and /infill.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/app.hpp"
#include "server/forms.hpp"
#include "server/generation.hpp"

namespace orrery::server {

struct NativeOptions {
  std::shared_ptr<ServedModel> model;
  GenerationOptions generation;
  AnswerForm form;
  bool stream = false;
  bool writes = true;  // false (n_predict 0): the prompt is computed, nothing is written
  bool return_tokens = false, return_progress = false, timings_per_token = false;
  std::optional<double> most_seconds;  // of writing, once there is a line break (t_max_predict_ms)
  std::vector<std::string> fields;     // of the answer, as paths with '/'; none: all
};

ApiResult<NativeOptions> parse_native_options(const Models& models, const Json& body);
// `prompt`: a text, token ids, both mixed in one list, or a list of such prompts. Texts may spell
// special tokens: their clients apply templates themselves.
ApiResult<std::vector<std::vector<text::TokenId>>> parse_native_prompts(const Json& body,
                                                                        const ServedModel& model);
// "generation_settings".
Json settings_object(const NativeOptions& options);
// Answers `prompts` in llama.cpp's form.
ApiStatus complete(App& app, const std::shared_ptr<Call>& call, NativeOptions options,
                   std::vector<std::vector<text::TokenId>> prompts);

}  // namespace orrery::server
