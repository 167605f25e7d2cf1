// From a path to what answers it. Nothing passes without the checks of guard.hpp but the chat page
// and /health.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/app.hpp"

namespace orrery::server {

// Where a handler runs: at once on the network's thread, behind the queue of texts, that of vectors
// or that of files.
enum class Where { network, texts, vectors, files };

struct Route {
  std::string_view method;  // GET serves HEAD too
  std::string_view path;    // a '*' at its end stands for one more non-empty segment
  Dialect dialect;
  Where where;
  ApiStatus (*handle)(App& app, const std::shared_ptr<Call>& call);
  bool needs_key = true;
  // Unless it runs on the network's thread: the model that the request names comes into memory
  // before.
  bool loads = true;
};

// Every route that there is.
std::span<const Route> routes();

// For net::HttpServerOptions.
bool admit(App& app, net::HttpRequest& head, net::HttpReply& reply);
void handle(App& app, net::HttpRequest request, std::shared_ptr<net::HttpResponse> response);
net::HttpReply fault(App& app, int status, std::string_view message, const net::HttpRequest* head);

}  // namespace orrery::server
