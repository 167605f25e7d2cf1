// What Ollama's clients ask about models: /api/tags, show, ps, version; vectors: /api/embed.
#include <fmt/format.h>

#include "engine/embed_text.hpp"
#include "server/guard.hpp"
#include "server/inputs.hpp"
#include "server/ollama.hpp"

namespace orrery::server {
namespace {

// Some clients compare it to know what the server can do.
constexpr std::string_view kVersion = "0.12.0";

Json details(const ModelStatus& model) {
  const std::string family = model.facts == nullptr ? "" : model.facts->info.family;
  Json out = Json::object();
  out["parent_model"] = "";
  out["format"] = "gguf";
  out["family"] = family;
  out["families"] = family.empty() ? Json::array() : Json::array({family});
  out["parameter_size"] = "";
  out["quantization_level"] = "";
  return out;
}

Json capabilities(const ModelStatus& model) {
  if (model.facts == nullptr) return Json::array({"completion"});
  return capabilities(*model.facts);
}

std::string modified_at(const ModelStatus& model) {
  return ollama_time(std::chrono::system_clock::from_time_t(model.source.modified));
}

Json entry(const ModelStatus& model, std::uint64_t bytes) {
  Json out = Json::object();
  out["name"] = model.id + ":latest";
  out["model"] = model.id + ":latest";
  out["size"] = bytes;
  out["digest"] = text_digest(model.id);  // 64 hex digits; stands for the name, not for the bytes
  out["details"] = details(model);
  return out;
}

}  // namespace

ApiStatus ollama_tags(App& app, const CallPtr& call) {
  Json out = Json::object();
  out["models"] = Json::array();
  for (const ModelStatus& model : app.models.list()) {
    Json one = entry(model, model.source.file_bytes);
    one["modified_at"] = modified_at(model);
    one["capabilities"] = capabilities(model);
    out["models"].push_back(std::move(one));
  }
  send_json(app, *call, out);
  return {};
}

ApiStatus ollama_ps(App& app, const CallPtr& call) {
  Json out = Json::object();
  out["models"] = Json::array();
  for (const ModelStatus& model : app.models.list()) {
    const auto served = app.models.find(model.id);
    if (model.presence != Presence::ready || !served) continue;
    Json one = entry(model, memory_in_use(**served));
    one["expires_at"] = model.expires ? ollama_time(*model.expires) : "2318-01-01T00:00:00Z";
    one["size_vram"] = 0;
    one["context_length"] = model.facts->info.context;
    out["models"].push_back(std::move(one));
  }
  send_json(app, *call, out);
  return {};
}

ApiStatus ollama_version(App& app, const CallPtr& call) {
  Json out = Json::object();
  out["version"] = kVersion;
  send_json(app, *call, out);
  return {};
}

ApiStatus ollama_show(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(const auto name, get_string(body, "model", 1U << 20));
  ORRERY_TRY(const auto older, get_string(body, "name", 1U << 20));
  ORRERY_TRY(const ModelStatus model, app.models.inspect(name.value_or(older.value_or(""))));
  Json out = Json::object();
  out["modelfile"] = "";
  out["parameters"] = "";
  out["template"] = "";
  out["details"] = details(model);
  out["model_info"] = Json::object();
  if (model.facts != nullptr) {
    const engine::ModelInfo& info = model.facts->info;
    out["model_info"]["general.architecture"] = info.family;
    out["model_info"][info.family + ".context_length"] = info.training_context;
    out["model_info"][info.family + ".embedding_length"] = model.facts->embedding_dim;
  }
  out["capabilities"] = capabilities(model);
  out["modified_at"] = modified_at(model);
  send_json(app, *call, out);
  return {};
}

ApiStatus ollama_embed(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(const auto name, get_string(body, "model", 1U << 20));
  ORRERY_TRY(const auto model, app.models.find(name.value_or("")));
  const bool is_old = call->request.path == "/api/embeddings";
  ORRERY_TRY(const auto inputs,
             parse_inputs(body, is_old ? "prompt" : "input", *model, {.add_special = true}));
  Json vectors = Json::array();
  std::size_t tokens = 0;
  for (const auto& ids : inputs) {
    if (call->response->is_gone()) return {};
    auto vector = model->model->embed(ids);
    note_outcome(*model, vector ? nullptr : &vector.error());
    if (!vector) return std::unexpected(api_error(vector.error()));
    vectors.push_back(*vector);
    tokens += ids.size();
  }
  Json out = Json::object();
  if (is_old) {
    out["embedding"] = vectors[0];
  } else {
    out["model"] = model->id;
    out["embeddings"] = std::move(vectors);
    out["prompt_eval_count"] = tokens;
  }
  send_json(app, *call, out);
  return {};
}

ApiStatus ollama_unsupported(App&, const CallPtr& call) {
  return refuse(501, fmt::format("{} is not supported: models are files that the server finds or "
                                 "pulls",
                                 call->request.path));
}

}  // namespace orrery::server
