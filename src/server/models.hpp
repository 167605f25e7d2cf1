// The models that are served, and the names that clients have for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model.hpp"
#include "engine/scheduler.hpp"
#include "server/api_error.hpp"
#include "text/grammar.hpp"
#include "text/tool_format.hpp"

namespace orrery::server {

struct ServedModel {
  std::string id;
  std::shared_ptr<const engine::Model> model;
  std::unique_ptr<engine::Scheduler> scheduler;         // null for a model that only makes vectors
  engine::Overflow overflow = engine::Overflow::error;  // what becomes of a full context
  std::int64_t created = 0;                             // Unix seconds
  // prepare_texts():
  std::unique_ptr<text::Grammars> grammars;
  text::ToolFormat tool_format;
  std::vector<text::TokenId> marks, reasoning_marks;  // special tokens that replies are read by

  // Longest prompt with its answer, in tokens.
  std::uint32_t context() const { return model->info().context; }
};

// How the model's replies are written, as its template shows it.
void prepare_texts(ServedModel& served);

class Models {
 public:
  // At least one; the ids are distinct.
  explicit Models(std::vector<std::shared_ptr<ServedModel>> models) : models_(std::move(models)) {}

  // By id, with or without Ollama's ":latest"; "" and "default" mean the first. 404 for any other
  // name, always with the same text.
  ApiResult<std::shared_ptr<ServedModel>> find(std::string_view name) const;
  // 400 for one that only makes vectors.
  ApiResult<std::shared_ptr<ServedModel>> find_writer(std::string_view name) const;
  const std::vector<std::shared_ptr<ServedModel>>& all() const { return models_; }

 private:
  std::vector<std::shared_ptr<ServedModel>> models_;
};

// "smollm2-135m-instruct" from "SmolLM2-135M-Instruct.Q4_1.gguf" or a path to it: lower case,
// without the folder, the extension and what no client would type.
std::string model_id(std::string_view name);

}  // namespace orrery::server
