// POST /api/pull and DELETE /api/delete, which change what is on the disk: only with --admin.
#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "server/ollama.hpp"

namespace orrery::server {
namespace {

constexpr double kLineSeconds = 0.1;  // at most ten lines a second

ApiStatus check_admin(const App& app) {
  if (app.draining) return refuse(503, "the server is ending", "", "draining");
  if (app.access.admin) return {};
  return refuse(403, "clients may not change the models of this server (--admin lets them)", "",
                "not_admin");
}

ApiResult<std::string> model_name(const Json& body) {
  ORRERY_TRY(const auto name, get_string(body, "model", 4096));
  ORRERY_TRY(const auto older, get_string(body, "name", 4096));
  std::string found = name.value_or(older.value_or(""));
  if (found.empty()) return refuse(400, "model is missing", "model");
  return found;
}

ApiError pull_error(const Error& error) {
  struct Mapping {
    std::string_view kind;
    int status;
  };
  constexpr Mapping kMappings[] = {{"E_NOMODEL", 404}, {"E_URL", 400},      {"E_HTTP", 502},
                                   {"E_NETWORK", 502}, {"E_CHECKSUM", 502}, {"E_REPOSITORY", 502}};
  const auto* const found = std::ranges::find(kMappings, error.kind, &Mapping::kind);
  if (found != std::end(kMappings)) return {found->status, error.message, "model", "pull_failed"};
  return {500, "the model could not be stored; the server's log says why", "model", "pull_failed"};
}

// One download, on the thread of downloads.
class Pull {
 public:
  Pull(App& app, CallPtr call, bool stream) : app_(app), call_(std::move(call)), stream_(stream) {}

  void run(const std::string& name) {
    if (stream_) begin_stream(app_, *call_, "application/x-ndjson", "");
    write(status("pulling manifest"));
    const auto source =
        app_.models.pull(name, [this](const PullEvent& event) { return report(event); });
    if (!source) return send_error(app_, *call_, pull_error(source.error()));
    if (!app_.models.add(*source)) {
      return send_error(app_, *call_,
                        {409,
                         "the model was pulled, but another one has its name: "
                         "start the server without that",
                         "model", "name_taken"});
    }
    write(status("the model is served as " + source->id));
    if (!stream_) return send_json(app_, *call_, status("success"));
    write(status("success"));
    call_->response->finish();
  }

 private:
  static Json status(std::string_view text) {
    Json out = Json::object();
    out["status"] = text;
    return out;
  }

  bool report(const PullEvent& event) {
    const double now = now_seconds();
    const bool whole = event.total > 0 && event.done == event.total;
    if (whole || now - told_ >= kLineSeconds) {
      told_ = now;
      Json line = status("pulling " + event.file);
      line["digest"] = "sha256:" + event.sha256;
      if (event.total > 0) {
        line["total"] = event.total;
        line["completed"] = event.done;
      }
      write(line);
    }
    return !call_->response->is_gone() && !app_.draining;
  }

  void write(const Json& line) {
    if (stream_) call_->response->write(to_text(line) + "\n");
  }

  App& app_;
  CallPtr call_;
  bool stream_;
  double told_ = 0;
};

}  // namespace

ApiStatus ollama_pull(App& app, const CallPtr& call) {
  ORRERY_TRY_VOID(check_admin(app));
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(const std::string name, model_name(body));
  ORRERY_TRY(const bool stream, get_bool(body, "stream", true));
  const bool queued = app.pulls.push(
      [&app, call, name, stream] {
        if (!call->response->is_gone()) Pull(app, call, stream).run(name);
      },
      call->request.body.size());
  if (!queued) return refuse(503, "too many downloads wait; try again", "", "queue_full");
  return {};
}

ApiStatus ollama_delete(App& app, const CallPtr& call) {
  ORRERY_TRY_VOID(check_admin(app));
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(const std::string name, model_name(body));
  return app.models.remove(name, [&app, call](const ApiStatus& status) {
    if (!status) return send_error(app, *call, status.error());
    Json out = Json::object();
    out["status"] = "success";
    send_json(app, *call, out);
  });
}

}  // namespace orrery::server
