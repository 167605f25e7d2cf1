// A model that is in memory, with what the handlers need beside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model.hpp"
#include "engine/scheduler.hpp"
#include "server/api_error.hpp"
#include "server/lora.hpp"
#include "text/grammar.hpp"
#include "text/infill.hpp"
#include "text/tool_format.hpp"

namespace orrery::server {

struct ServedModel {
  std::string id;
  std::shared_ptr<const engine::Model> model;
  std::unique_ptr<engine::Scheduler> scheduler;         // null for a model that only makes vectors
  engine::Overflow overflow = engine::Overflow::error;  // what becomes of a full context
  std::int64_t created = 0;                             // Unix seconds
  Adapters adapters;
  // Of the machine, once somebody has asked for metrics; bytes per second, 0: not known.
  std::atomic<double> read_bandwidth{0};
  std::atomic<bool> bandwidth_is_asked{false};
  std::atomic<bool> has_fault{false};  // its files have changed: the last answer was E_CHANGED
  // prepare_texts():
  std::unique_ptr<text::Grammars> grammars;
  text::ToolFormat tool_format;
  std::vector<text::TokenId> marks, reasoning_marks;  // special tokens that replies are read by
  text::InfillTokens infill;

  // Longest prompt with its answer, in tokens.
  std::uint32_t context() const { return model->info().context; }
};

// What is refused of a model without a scheduler.
ApiError not_generative(const ServedModel& served);
// What became of its last answer or vector.
void note_outcome(ServedModel& served, const Error* error);

// How the model's replies are written, as its template shows it.
void prepare_texts(ServedModel& served);

// "smollm2-135m-instruct" from "SmolLM2-135M-Instruct.Q4_1.gguf" or a path to it: lower case,
// without the folder, the extension and what no client would type. Ollama's "qwen3:4b" stays.
std::string model_id(std::string_view name);

}  // namespace orrery::server
