// GET /v1/models and GET /v1/models/ID.
#include "server/handlers.hpp"

namespace orrery::server {
namespace {

Json model_object(const ServedModel& model) {
  const engine::ModelInfo& info = model.model->info();
  Json meta = Json::object();
  meta["family"] = info.family;
  meta["n_ctx"] = info.context;
  meta["n_ctx_train"] = info.training_context;
  meta["n_vocab"] = model.model->n_tokens();
  meta["size"] = info.weight_bytes;
  Json out = Json::object();
  out["id"] = model.id;
  out["object"] = "model";
  out["created"] = model.created;
  out["owned_by"] = "orrery";
  out["meta"] = std::move(meta);
  return out;
}

}  // namespace

ApiStatus openai_models(App& app, const CallPtr& call) {
  Json body = Json::object();
  body["object"] = "list";
  body["data"] = Json::array();
  for (const auto& model : app.models.all()) body["data"].push_back(model_object(*model));
  send_json(app, *call, body);
  return {};
}

ApiStatus openai_model(App& app, const CallPtr& call) {
  constexpr std::string_view kPrefix = "/v1/models/";
  ORRERY_TRY(const auto model, app.models.find(call->request.path.substr(kPrefix.size())));
  send_json(app, *call, model_object(*model));
  return {};
}

}  // namespace orrery::server
