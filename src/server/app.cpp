#include "server/app.hpp"

#include <chrono>
#include <random>
#include <utility>

#include "server/fields.hpp"

namespace orrery::server {
namespace {

void count(App& app, const Call& call, int status) {
  app.metrics.count_request(status);
  if (call.log != nullptr) call.log->set_status(status);
}

}  // namespace

ApiResult<Json> take_body(Call& call) {
  if (!call.body) return parse_object(call.request.body);
  ApiResult<Json> body = std::move(*call.body);
  call.body.reset();
  return body;
}

void send_reply(App& app, const Call& call, net::HttpReply reply) {
  count(app, call, reply.status);
  call.response->send(std::move(reply));
}

void send_json(App& app, const Call& call, const Json& json) {
  if (call.begun) {  // while it waited: it asked for a stream where there is none
    call.response->write("data: " + to_text(json) + "\n\n");
    call.response->finish();
    return;
  }
  send_reply(app, call, {200, "application/json", {}, to_text(json)});
}

void begin_stream(App& app, Call& call, std::string content_type, std::string probe) {
  if (std::exchange(call.begun, true)) return;
  count(app, call, 200);
  net::HttpReply head{200, std::move(content_type), {}, ""};
  head.headers.push_back({"Cache-Control", "no-cache"});
  head.headers.push_back({"X-Accel-Buffering", "no"});  // proxies pass it on at once
  call.response->begin(std::move(head), std::move(probe));
}

void send_error(App& app, const Call& call, const ApiError& error) {
  if (call.begun) {
    call.response->write(error_event(call.dialect, call.request.path, error));
    call.response->finish();
    return;
  }
  send_reply(app, call, error_reply(call.dialect, error));
}

std::string new_id(std::string_view prefix) {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  thread_local std::random_device device;
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += kLetters[device() % kLetters.size()];
  return id;
}

std::int64_t unix_seconds() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace orrery::server
