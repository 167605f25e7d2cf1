#include "server/model_request.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "server/fields.hpp"

namespace orrery::server {
namespace {

ApiResult<std::optional<Keep>> keep_alive(const Json& body) {
  const Json* value = find(body, "keep_alive");
  if (value == nullptr) return std::nullopt;
  Result<Keep> keep = fail("E_PARAM", "keep_alive must be a number of seconds or a duration");
  if (value->is_number()) keep = keep_alive_of(value->get<double>());
  if (value->is_string()) keep = parse_keep_alive(value->get_ref<const std::string&>());
  if (!keep) return refuse(400, keep.error().message, "keep_alive", "invalid_value");
  return *keep;
}

// Comments keep the connection alive; Ollama's form has none.
void begin_early(App& app, Call& call) {
  const bool anthropic = call.dialect == Dialect::anthropic;
  begin_stream(app, call, "text/event-stream",
               anthropic ? "event: ping\ndata: {\"type\":\"ping\"}\n\n" : ":\n\n");
}

}  // namespace

bool asks_to_unload(const Call& call, const Json& body) {
  const bool chat = call.request.path == "/api/chat";
  if (!chat && call.request.path != "/api/generate") return false;
  const Json* prompt = find(body, chat ? "messages" : "prompt");
  const auto keep = keep_alive(body);
  return (prompt == nullptr || prompt->empty() || *prompt == "") && keep && *keep == Keep(0);
}

std::string_view query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
  }
  return {};
}

ApiResult<std::string> model_of_slot(const Call& call, const Json* body) {
  const std::string_view name = query_value(call.request.query, "model");
  if (!name.empty() || body == nullptr) return std::string(name);
  ORRERY_TRY(auto named, get_string(*body, "model", 1U << 20));
  return std::move(named).value_or("");
}

ApiResult<std::optional<WantedModel>> wanted_model(const Call& call, const Json* body) {
  WantedModel wanted;
  if (call.request.path.starts_with("/slots/")) {
    ORRERY_TRY(wanted.name, model_of_slot(call, body));
    return wanted;
  }
  if (body == nullptr) return std::nullopt;
  const Json* name = find(*body, "model");
  if (name != nullptr && !name->is_string()) return std::nullopt;
  if (name != nullptr) wanted.name = name->get<std::string>();
  if (call.dialect == Dialect::ollama) {
    ORRERY_TRY(wanted.keep, keep_alive(*body));
    if (asks_to_unload(call, *body)) return std::nullopt;
    return wanted;
  }
  const Json* stream = find(*body, "stream");
  wanted.streams = stream != nullptr && *stream == true;
  return wanted;
}

void with_model(App& app, const CallPtr& call, Worker& worker, std::function<void()> run) {
  // Not the call's before the model is there: read, a body takes many times its bytes, and those
  // who wait are counted by these.
  ApiResult<Json> body = parse_object(call->request.body);
  auto wanted = wanted_model(*call, body ? &*body : nullptr);
  if (!wanted) return send_error(app, *call, wanted.error());
  if (!*wanted) {
    call->body = std::move(body);
    return run();
  }
  const WaiterId waiter = app.models.new_waiter();
  // Before the model is asked for: afterwards the handler has a callback of its own.
  call->response->on_gone([&app, waiter] { app.models.cancel(waiter); });
  Waiting waiting;
  waiting.bytes = call->request.body.size();
  if ((*wanted)->streams) waiting.waits_long = [&app, call] { begin_early(app, *call); };
  waiting.answered = [&app, &worker, call, run, asked = now_seconds()](ApiResult<Lease> lease) {
    if (!lease) return send_error(app, *call, lease.error());
    call->lease = std::move(*lease);
    call->load_seconds = now_seconds() - asked;
    if (worker.push(run, call->request.body.size())) return;
    ApiError busy{503, "too many requests wait; try again", "", "queue_full"};
    busy.retry_after = 1;
    send_error(app, *call, busy);
  };
  auto lease = app.models.ask(waiter, (*wanted)->name, (*wanted)->keep, std::move(waiting));
  if (!lease) return;
  if (!*lease) return send_error(app, *call, lease->error());
  call->lease = std::move(**lease);
  call->body = std::move(body);
  run();
}

}  // namespace orrery::server
