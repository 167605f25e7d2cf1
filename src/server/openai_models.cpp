// GET /v1/models and GET /v1/models/ID.
#include <utility>

#include "server/handlers.hpp"

namespace orrery::server {
namespace {

// As llama-server's router calls it.
std::string_view status_name(Presence presence) {
  switch (presence) {
    case Presence::absent:
    case Presence::unloading:
      return "unloaded";
    case Presence::loading:
      return "loading";
    case Presence::ready:
      return "loaded";
    case Presence::failed:
      return "failed";
  }
  std::unreachable();
}

Json model_object(const ModelStatus& model) {
  Json meta = Json::object();
  meta["size"] = model.source.file_bytes;
  if (model.facts != nullptr) {
    const engine::ModelInfo& info = model.facts->info;
    meta["family"] = info.family;
    meta["n_ctx"] = info.context;
    meta["n_ctx_train"] = info.training_context;
    meta["n_vocab"] = model.facts->n_tokens;
    meta["size"] = info.weight_bytes;
    meta["capabilities"] = capabilities(*model.facts);
  }
  Json out = Json::object();
  out["id"] = model.id;
  out["object"] = "model";
  out["created"] = model.source.modified;
  out["owned_by"] = "orrery";
  out["status"]["value"] = status_name(model.presence);
  out["meta"] = std::move(meta);
  return out;
}

}  // namespace

ApiStatus openai_models(App& app, const CallPtr& call) {
  Json body = Json::object();
  body["object"] = "list";
  body["data"] = Json::array();
  for (const ModelStatus& model : app.models.list()) body["data"].push_back(model_object(model));
  send_json(app, *call, body);
  return {};
}

ApiStatus openai_model(App& app, const CallPtr& call) {
  constexpr std::string_view kPrefix = "/v1/models/";
  ORRERY_TRY(const auto model, app.models.describe(call->request.path.substr(kPrefix.size())));
  send_json(app, *call, model_object(model));
  return {};
}

}  // namespace orrery::server
