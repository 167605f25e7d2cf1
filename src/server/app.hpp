// What all routes share, and a request on its way through them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session_folder.hpp"
#include "net/http_server.hpp"
#include "server/api_error.hpp"
#include "server/metrics.hpp"
#include "server/models.hpp"
#include "server/request_log.hpp"
#include "server/worker.hpp"

namespace orrery::server {

// Bytes per second that the machine can read of a model's weights, measured now: takes a second at
// most, and turns with the model's scheduler. Called on a thread that may wait.
using ReadBandwidth = std::function<double(const engine::Model&)>;

struct Access {
  std::vector<std::string> keys;             // none: nobody needs one
  std::vector<std::string> allowed_origins;  // of web pages, besides this machine's own
  std::vector<std::string> allowed_hosts;    // names of this server, besides localhost
  bool shares_cache = false;                 // between keys
  std::uint32_t requests_per_key = 0;        // at once; 0: no limit
  bool admin = false;                        // clients may pull and delete models
};

// One request. Ends, and frees its place, when nobody holds it any more.
struct Call {
  net::HttpRequest request;
  std::shared_ptr<net::HttpResponse> response;
  Dialect dialect = Dialect::openai;
  std::string domain;             // whose prefixes it may share
  std::shared_ptr<void> ticket;   // its place among those of its key
  std::shared_ptr<LogEntry> log;  // null: nobody wants one
  Lease lease;                    // of the model that it names: it stays in memory till the end
  double load_seconds = 0;        // that it waited for it
  bool begun = false;             // a stream: errors are events of it
  // The body, if somebody has read it and its handler has not taken it yet (take_body).
  std::optional<ApiResult<Json>> body;
};

struct App {
  App(std::unique_ptr<ModelStore> store, const std::vector<ModelSource>& sources,
      const ModelsOptions& options, Access allowed, std::string version_text, LogLine log_line)
      : access(std::move(allowed)),
        version(std::move(version_text)),
        log(std::move(log_line)),
        models(std::move(store), sources, options) {}

  const Access access;
  const std::string version;
  const LogLine log;  // empty: nobody reads it
  Metrics metrics;
  ReadBandwidth read_bandwidth;      // set before anybody asks
  std::atomic<bool> starting{true};  // the models named at the start are being loaded
  std::atomic<bool> draining{false};
  std::atomic<bool> saves_fail{
      false};  // the last session could not be saved, for its folder's sake
  std::atomic<const net::HttpServer*> http{nullptr};  // null until it runs
  std::mutex places_mutex;
  std::map<std::string, std::uint32_t> places;  // requests at once, by domain
  // The schedulers end here, and call what stands above until they have.
  Models models;
  std::unique_ptr<const engine::SessionFolder> sessions;  // null: none are kept
  // Templates, tokenizing, grammars; vectors of texts; what waits for disks and for ticks.
  Worker texts, vectors, files;
  Worker pulls;  // downloads of models
};

// The body of the request: a JSON object, else 400. Once: it is the caller's to let go of.
ApiResult<Json> take_body(Call& call);
void send_reply(App& app, const Call& call, net::HttpReply reply);
void send_json(App& app, const Call& call, const Json& json);
// The head of a stream; `probe` as in net::HttpResponse::begin().
void begin_stream(App& app, Call& call, std::string content_type, std::string probe);
// The reply, or the end of a stream that has begun.
void send_error(App& app, const Call& call, const ApiError& error);
// "chatcmpl-" and 24 random letters and digits.
std::string new_id(std::string_view prefix);
std::int64_t unix_seconds();

}  // namespace orrery::server
