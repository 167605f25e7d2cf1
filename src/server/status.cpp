// GET /health, GET /metrics and GET /openapi.json.
#include "server/handlers.hpp"
#include "server/openapi.hpp"

namespace orrery::server {

ApiStatus health(App& app, const CallPtr& call) {
  Json body = Json::object();
  if (app.draining) {
    body["status"] = "draining";
    send_reply(app, *call, {503, "application/json", {}, to_text(body)});
    return {};
  }
  body["loading"] = Json::array();
  for (const ModelStatus& model : app.models.list()) {
    if (model.presence == Presence::loading) body["loading"].push_back(model.id);
  }
  if (app.starting) {
    body["status"] = "loading";
    send_reply(app, *call, {503, "application/json", {}, to_text(body)});
    return {};
  }
  body["status"] = "ok";
  send_json(app, *call, body);
  return {};
}

ApiStatus metrics(App& app, const CallPtr& call) {
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
