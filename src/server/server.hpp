// The model server: routes, models and workers behind one HTTP server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "net/http_server.hpp"
#include "server/app.hpp"

namespace orrery::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::string certificate, key;  // PEM files for TLS, or ""
  std::uint64_t max_body = 16U << 20;
  std::string session_dir;  // of POST /slots/ID?action=save; "": none
  Access access;
  ModelsOptions models;
  std::string version;
  LogLine log;                   // of requests; empty: none
  ReadBandwidth read_bandwidth;  // empty: it is not measured
};

class Server {
 public:
  // E_KEY when others than this machine could reach it without a key; E_ADDRESS and E_TLS as
  // net::HttpServer.
  static Result<std::unique_ptr<Server>> start(std::unique_ptr<ModelStore> store,
                                               const std::vector<ModelSource>& sources,
                                               const ServerOptions& options);
  ~Server();

  std::uint16_t port() const { return http_->port(); }
  // Models::preload(); until it is done /health tells "loading".
  Status load_models();
  std::vector<ModelStatus> models() const { return app_->models.list(); }
  // Takes no more requests; streams may go on for so long, then they end with an error.
  void drain(std::chrono::milliseconds grace);

 private:
  Server() = default;

  std::unique_ptr<App> app_;
  std::unique_ptr<net::HttpServer> http_;
};

}  // namespace orrery::server
