#include "server/models.hpp"

#include <algorithm>

#include "engine/model_defaults.hpp"

namespace orrery::server {

void prepare_texts(ServedModel& served) {
  const std::shared_ptr<const text::Tokenizer> tokenizer(served.model, &served.model->tokenizer());
  served.grammars = std::make_unique<text::Grammars>(tokenizer);
  const auto source = engine::chat_template_source(served.model->checkpoint());
  served.tool_format = text::find_tool_format(source ? *source : "");
  served.marks = text::special_marks(served.tool_format, *tokenizer);
  served.reasoning_marks = text::special_marks(served.tool_format, *tokenizer, false);
}

ApiResult<std::shared_ptr<ServedModel>> Models::find(std::string_view name) const {
  if (name.empty() || name == "default") return models_.front();
  constexpr std::string_view kLatest = ":latest";
  for (const auto& model : models_) {
    if (name == model->id ||
        (name.ends_with(kLatest) && name.substr(0, name.size() - kLatest.size()) == model->id)) {
      return model;
    }
  }
  return refuse(404, "the model is not served here; GET /v1/models lists those that are", "model",
                "model_not_found");
}

ApiResult<std::shared_ptr<ServedModel>> Models::find_writer(std::string_view name) const {
  ORRERY_TRY(auto model, find(name));
  if (model->scheduler != nullptr) return model;
  return refuse(400, "the model makes vectors of texts and writes none", "model",
                "model_not_generative");
}

std::string model_id(std::string_view name) {
  while (name.ends_with('/')) name.remove_suffix(1);
  name = name.substr(name.find_last_of('/') + 1);
  for (const std::string_view extension : {".gguf", ".safetensors"}) {
    if (name.ends_with(extension)) name.remove_suffix(extension.size());
  }
  std::string id;
  for (const char c : name.substr(0, 128)) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    id += upper ? static_cast<char>(c - 'A' + 'a') : plain ? c : '-';
  }
  return id.empty() ? "model" : id;
}

}  // namespace orrery::server
