#include "server/router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/guard.hpp"
#include "server/model_request.hpp"
#include "server/web_files.hpp"

namespace orrery::server {
namespace {

bool fits(const Route& route, std::string_view path) {
  if (!route.path.ends_with('*')) return route.path == path;
  const std::string_view start = route.path.substr(0, route.path.size() - 1);
  return path.starts_with(start) && path.size() > start.size() &&
         path.find('/', start.size()) == std::string_view::npos;
}

std::string_view served_method(const net::HttpRequest& request) {
  return request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
}

const Route* find_route(const net::HttpRequest& request) {
  const auto all = routes();
  const auto found = std::ranges::find_if(all, [&](const Route& route) {
    return route.method == served_method(request) && fits(route, request.path);
  });
  return found == all.end() ? nullptr : &*found;
}

std::string allowed_methods(std::string_view path) {
  std::string methods;
  for (const Route& route : routes()) {
    if (!fits(route, path) || methods.contains(route.method)) continue;
    methods += methods.empty() ? "" : ", ";
    methods += route.method;
  }
  if (find_web_file(path) != nullptr && methods.empty()) methods = "GET";
  return methods;
}

// The form of errors on a path that has no route, or before one is known.
Dialect dialect_of(std::string_view path) {
  if (path.starts_with("/api/")) return Dialect::ollama;
  if (path.starts_with("/v1/messages")) return Dialect::anthropic;
  return Dialect::openai;
}

bool is_json(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  constexpr std::string_view kJson = "application/json";
  return type.substr(0, type.find_last_not_of(" \t") + 1).size() == kJson.size() &&
         std::ranges::equal(type.substr(0, kJson.size()), kJson, [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         });
}

bool needs_json(const net::HttpRequest& request) {
  if (request.method != "POST") return false;
  // Ollama's users send its examples with curl, which calls everything a form; a browser, which is
  // what this check is about, says where it comes from.
  const bool browser = request.count("origin") > 0 || request.count("sec-fetch-site") > 0;
  return browser || !request.path.starts_with("/api/");
}

ApiStatus check_origin(const App& app, const net::HttpRequest& request, net::HttpReply& reply) {
  if (request.count("origin") == 0) return {};
  reply.headers.push_back({"Vary", "Origin"});
  const std::string_view origin = request.header("origin");
  if (is_known_origin(origin, request.header("host"), app.access)) {
    reply.headers.push_back({"Access-Control-Allow-Origin", std::string(origin)});
    return {};
  }
  if (request.method == "GET" || request.method == "HEAD") return {};
  return refuse(403, "pages of this origin may not use the server (--allow-origin)", "",
                "origin_not_allowed");
}

ApiStatus check_request(App& app, const net::HttpRequest& request, net::HttpReply& reply) {
  const bool host_matters = app.access.keys.empty();  // a key protects from rebinding, too
  if (host_matters && request.count("host") > 0 &&
      !is_known_host(request.header("host"), app.access)) {
    return refuse(421, "the server does not go by this name (--allow-host)", "", "unknown_host");
  }
  ORRERY_TRY_VOID(check_origin(app, request, reply));
  if (request.method == "OPTIONS") return {};
  const Route* route = find_route(request);
  const bool page = served_method(request) == "GET" && find_web_file(request.path) != nullptr;
  const bool open = page || (route != nullptr && !route->needs_key);
  if (!open && !check_key(request, app.access).allowed) {
    return refuse(401, "a valid API key is needed: Authorization: Bearer KEY", "",
                  "invalid_api_key");
  }
  if (page || route != nullptr) {
    if (needs_json(request) && !is_json(request.header("content-type"))) {
      return refuse(415, "the body must be sent with Content-Type: application/json", "",
                    "unsupported_media_type");
    }
    return {};
  }
  const std::string methods = allowed_methods(request.path);
  if (methods.empty()) return refuse(404, "there is nothing at this address", "", "not_found");
  reply.headers.push_back({"Allow", methods});
  return refuse(405, "the method is not allowed at this address", "", "method_not_allowed");
}

void answer_options(const net::HttpRequest& request, net::HttpResponse& response) {
  net::HttpReply reply{204, "", {}, ""};
  reply.headers.push_back({"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"});
  reply.headers.push_back(
      {"Access-Control-Allow-Headers",
       "authorization, content-type, x-api-key, x-request-id, anthropic-version"});
  reply.headers.push_back({"Access-Control-Max-Age", "600"});
  reply.headers.push_back({"Allow", allowed_methods(request.path)});
  response.send(std::move(reply));
}

void answer_page(const WebFile& file, const net::HttpRequest& request,
                 net::HttpResponse& response) {
  const bool same = request.header("if-none-match") == file.etag;
  net::HttpReply reply{same ? 304 : 200, std::string(file.media_type), {}, ""};
  reply.headers.push_back({"ETag", std::string(file.etag)});
  reply.headers.push_back({"Content-Security-Policy", std::string(kWebContentPolicy)});
  reply.headers.push_back({"Cache-Control", "no-cache"});
  reply.headers.push_back({"Referrer-Policy", "no-referrer"});
  if (!same) reply.body = file.bytes;
  response.send(std::move(reply));
}

// A place among the requests of one key; null when all are taken.
std::shared_ptr<void> take_place(App& app, const std::string& domain) {
  const std::lock_guard lock(app.places_mutex);
  std::uint32_t& taken = app.places[domain];
  if (app.access.requests_per_key > 0 && taken >= app.access.requests_per_key) return nullptr;
  ++taken;
  return {static_cast<void*>(&app), [domain](void* raw) {
            App& held = *static_cast<App*>(raw);
            const std::lock_guard inner(held.places_mutex);
            const auto found = held.places.find(domain);
            if (--found->second == 0) held.places.erase(found);
          }};
}

// What may stand in a header and in a log.
bool is_request_id(std::string_view text) {
  constexpr std::size_t kMost = 128;
  return !text.empty() && text.size() <= kMost && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.:/+=").contains(c);
  });
}

void add_request_id(net::HttpReply& reply, const std::string& id, Dialect dialect) {
  reply.headers.push_back({"X-Request-Id", id});
  if (dialect == Dialect::anthropic) reply.headers.push_back({"request-id", id});  // its own name
}

void run(App& app, const Route& route, const std::shared_ptr<Call>& call) {
  const ApiStatus status = route.handle(app, call);
  if (!status) send_error(app, *call, status.error());
}

}  // namespace

bool admit(App& app, net::HttpRequest& head, net::HttpReply& reply) {
  head.id = is_request_id(head.header("x-request-id")) ? std::string(head.header("x-request-id"))
                                                       : new_id("req_");
  reply.headers.push_back({"X-Content-Type-Options", "nosniff"});
  add_request_id(reply, head.id, dialect_of(head.path));
  const ApiStatus status = check_request(app, head, reply);
  if (status) return true;
  app.metrics.count_request(status.error().status);
  net::HttpReply refusal = error_reply(dialect_of(head.path), status.error());
  refusal.headers.insert(refusal.headers.end(), reply.headers.begin(), reply.headers.end());
  reply = std::move(refusal);
  return false;
}

void handle(App& app, net::HttpRequest request, std::shared_ptr<net::HttpResponse> response) {
  if (request.method == "OPTIONS") return answer_options(request, *response);
  const Route* route = find_route(request);
  if (route == nullptr) {  // admit() has seen that it is a file of the page
    if (const WebFile* file = find_web_file(request.path)) answer_page(*file, request, *response);
    return;
  }
  auto call = std::make_shared<Call>();
  call->response = std::move(response);
  call->dialect = route->dialect;
  if (app.log) {
    call->log = std::make_shared<LogEntry>(app.log, route->method, route->path, request.id);
  }
  const std::string key = check_key(request, app.access).domain;
  call->domain = app.access.shares_cache ? "" : key;
  call->request = std::move(request);
  if (route->where == Where::network) return run(app, *route, call);
  ApiError busy{503, "too many requests wait; try again", "", "queue_full"};
  busy.retry_after = 1;
  if (app.draining) {
    busy.message = "the server is ending";
    busy.code = "draining";
    return send_error(app, *call, busy);
  }
  call->ticket = take_place(app, key);
  if (call->ticket == nullptr) {
    busy.status = 429;
    busy.message = "too many requests of this key at once; try again";
    busy.code = "rate_limit_exceeded";
    return send_error(app, *call, busy);
  }
  Worker& worker = route->where == Where::texts     ? app.texts
                   : route->where == Where::vectors ? app.vectors
                                                    : app.files;
  const std::size_t bytes = call->request.body.size();
  const auto handle_it = [&app, route, call] {
    if (!call->response->is_gone()) run(app, *route, call);
  };
  const bool queued = worker.push(
      [&app, &worker, route, call, handle_it] {
        route->loads ? with_model(app, call, worker, handle_it) : handle_it();
      },
      bytes);
  if (!queued) send_error(app, *call, busy);
}

net::HttpReply fault(App& app, int status, std::string_view message, const net::HttpRequest* head) {
  app.metrics.count_request(status);
  const Dialect dialect = head == nullptr ? Dialect::openai : dialect_of(head->path);
  net::HttpReply reply =
      error_reply(dialect, {status, std::string(message), "", "malformed_request"});
  add_request_id(reply, head == nullptr ? new_id("req_") : head->id, dialect);
  return reply;
}

}  // namespace orrery::server
