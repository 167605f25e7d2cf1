#include "server/served_model.hpp"

#include "engine/model_defaults.hpp"

namespace orrery::server {

ApiError not_generative(const ServedModel& served) {
  return {400,
          served.model->hparams().ranks
              ? "the model scores documents for a query and writes no text; use it with /v1/rerank"
              : "the model makes vectors of texts and writes none",
          "model", "model_not_generative"};
}

void prepare_texts(ServedModel& served) {
  const std::shared_ptr<const text::Tokenizer> tokenizer(served.model, &served.model->tokenizer());
  served.grammars = std::make_unique<text::Grammars>(tokenizer);
  const auto source = engine::chat_template_source(served.model->checkpoint());
  served.tool_format = text::find_tool_format(source ? *source : "");
  served.marks = text::special_marks(served.tool_format, *tokenizer);
  served.reasoning_marks = text::special_marks(served.tool_format, *tokenizer, false);
  served.infill = text::find_infill_tokens(served.model->checkpoint().metadata(), *tokenizer);
}

void note_outcome(ServedModel& served, const Error* error) {
  if (error == nullptr) {
    served.has_fault = false;
  } else if (error->kind == "E_CHANGED") {
    served.has_fault = true;
  }
}

std::string model_id(std::string_view name) {
  while (name.ends_with('/')) name.remove_suffix(1);
  name = name.substr(name.find_last_of('/') + 1);
  for (const std::string_view extension : {".gguf", ".safetensors", ":latest"}) {
    if (name.ends_with(extension)) name.remove_suffix(extension.size());
  }
  std::string id;
  for (const char c : name.substr(0, 128)) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == ':';
    id += upper ? static_cast<char>(c - 'A' + 'a') : plain ? c : '-';
  }
  return id.empty() ? "model" : id;
}

}  // namespace orrery::server
