#include "server/server.hpp"

#include <fmt/format.h>

#include <utility>

#include "server/router.hpp"

namespace orrery::server {
namespace {

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(std::unique_ptr<ModelStore> store,
                                              const std::vector<ModelSource>& sources,
                                              const ServerOptions& options) {
  if (!is_loopback(options.host) && options.access.keys.empty()) {
    return fail("E_KEY", fmt::format("{} can be reached by other machines: give an API key with "
                                     "--api-key, or listen on 127.0.0.1",
                                     options.host));
  }
  std::unique_ptr<Server> server(new Server());
  server->app_ = std::make_unique<App>(std::move(store), sources, options.models, options.access,
                                       options.version, options.log);
  App& app = *server->app_;
  app.read_bandwidth = options.read_bandwidth;
  if (!options.session_dir.empty()) {
    app.sessions = std::make_unique<engine::SessionFolder>(options.session_dir);
    app.saves_fail = !app.sessions->check();
  }
  net::HttpServerOptions http;
  http.host = options.host;
  http.port = options.port;
  http.certificate = options.certificate;
  http.key = options.key;
  http.limits.body_bytes = options.max_body;
  http.admit = [&app](net::HttpRequest& head, net::HttpReply& reply) {
    return admit(app, head, reply);
  };
  http.handle = [&app](net::HttpRequest request, std::shared_ptr<net::HttpResponse> response) {
    handle(app, std::move(request), std::move(response));
  };
  http.fault = [&app](int status, std::string_view message, const net::HttpRequest* head) {
    return fault(app, status, message, head);
  };
  ORRERY_TRY(server->http_, net::HttpServer::start(std::move(http)));
  app.http = server->http_.get();
  return server;
}

Status Server::load_models() {
  ORRERY_TRY_VOID(app_->models.preload());
  app_->starting = false;
  return {};
}

void Server::drain(std::chrono::milliseconds grace) {
  app_->draining = true;
  app_->models.drain();
  const auto models = app_->models.all();
  const auto each = [&](void (engine::Scheduler::*ends)()) {
    for (const auto& model : models) {
      if (model->scheduler != nullptr) (model->scheduler.get()->*ends)();
    }
  };
  each(&engine::Scheduler::drain);
  http_->drain(grace, [&] { each(&engine::Scheduler::stop); });
}

Server::~Server() {
  if (http_ != nullptr) drain(std::chrono::milliseconds(0));
}

}  // namespace orrery::server
