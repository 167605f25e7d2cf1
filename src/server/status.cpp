// GET /health, GET /metrics and GET /openapi.json.
#include "server/guard.hpp"
#include "server/handlers.hpp"
#include "server/openapi.hpp"

namespace orrery::server {
namespace {

// What an operator has to look after, while the rest works.
Json reasons(const App& app) {
  Json all = Json::array();
  const auto add = [&all](std::string_view code, const std::string& model) {
    Json reason = Json::object();
    reason["code"] = code;
    if (!model.empty()) reason["model"] = model;
    all.push_back(std::move(reason));
  };
  for (const ModelStatus& model : app.models.list()) {
    if (model.is_first && model.presence == Presence::failed) add("model_load_failed", model.id);
  }
  for (const auto& model : app.models.all()) {
    if (model->has_fault) add("model_faulted", model->id);
  }
  if (app.saves_fail) add("sessions_not_saved", "");
  return all;
}

Json loading(const App& app) {
  Json all = Json::array();
  for (const ModelStatus& model : app.models.list()) {
    if (model.presence == Presence::loading) all.push_back(model.id);
  }
  return all;
}

// Once for each model, when its weights have their place: behind what waits for disks.
void ask_for_bandwidth(App& app) {
  if (!app.read_bandwidth) return;
  for (const auto& model : app.models.all()) {
    if (model->scheduler == nullptr || model->scheduler->stats().decode_ticks < 2) continue;
    if (model->bandwidth_is_asked.exchange(true)) continue;
    const bool queued = app.files.push(
        [&app, model] { model->read_bandwidth = app.read_bandwidth(*model->model); }, 0);
    if (!queued) model->bandwidth_is_asked = false;
  }
}

}  // namespace

// Names of models are for those who have a key.
ApiStatus health(App& app, const CallPtr& call) {
  const Json faults = reasons(app);
  const bool is_away = app.draining || app.starting;
  Json body = Json::object();
  body["status"] = app.draining      ? "draining"
                   : app.starting    ? "loading"
                   : !faults.empty() ? "degraded"
                                     : "ok";
  if (check_key(call->request, app.access).allowed) {
    body["loading"] = loading(app);
    if (!faults.empty()) body["reasons"] = faults;
  }
  send_reply(app, *call, {is_away ? 503 : 200, "application/json", {}, to_text(body)});
  return {};
}

ApiStatus metrics(App& app, const CallPtr& call) {
  ask_for_bandwidth(app);
  const net::HttpServer* http = app.http;
  const std::size_t connections = http == nullptr ? 0 : http->connections();
  const std::string text = app.metrics.text(app.models, connections, app.texts.waiting());
  send_reply(app, *call, {200, "text/plain; version=0.0.4; charset=utf-8", {}, text});
  return {};
}

ApiStatus openapi(App& app, const CallPtr& call) {
  send_reply(app, *call, {200, "application/json", {}, std::string(openapi_document())});
  return {};
}

}  // namespace orrery::server
