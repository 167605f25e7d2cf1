// POST /api/chat and POST /api/generate.
#include <utility>

#include "server/generation.hpp"
#include "server/messages.hpp"
#include "server/model_request.hpp"
#include "server/ollama.hpp"

namespace orrery::server {
namespace {

using Kind = text::ReplyPart::Kind;

constexpr std::string_view kLines = "application/x-ndjson";

std::int64_t nanoseconds(double seconds) {
  return static_cast<std::int64_t>(seconds * 1e9);
}

std::string_view done_reason(const ChoiceEnd& end) {
  return is_cut_off(end) ? "length" : "stop";
}

// A line of either endpoint: `message` of a chat, `response` of a generation.
Json line(const std::string& model, bool is_chat, std::string_view content,
          std::string_view thinking) {
  Json out = Json::object();
  out["model"] = model;
  out["created_at"] = ollama_time();
  if (is_chat) {
    out["message"]["role"] = "assistant";
    out["message"]["content"] = content;
    if (!thinking.empty()) out["message"]["thinking"] = thinking;
  } else {
    out["response"] = content;
    if (!thinking.empty()) out["thinking"] = thinking;
  }
  out["done"] = false;
  return out;
}

class LineSink final : public Sink {
 public:
  LineSink(App& app, CallPtr call, std::string model, bool is_chat, bool stream)
      : app_(app),
        call_(std::move(call)),
        model_(std::move(model)),
        is_chat_(is_chat),
        stream_(stream) {}

  bool on_token(std::uint32_t, std::span<const text::ReplyPart> parts,
                const TokenLogprobs*) override {
    for (const text::ReplyPart& part : parts) add(part);
    if (stream_ && !(content_.empty() && thinking_.empty() && calls_.empty())) write(take_line());
    return !call_->response->is_gone();
  }

  void on_choice_end(std::uint32_t, const ChoiceEnd& end) override {
    reason_ = done_reason(end);
    if (end.error == nullptr) return;
    failed_ = true;
    stream_ ? write(error_object(Dialect::ollama, *end.error))
            : send_error(app_, *call_, *end.error);
  }

  void on_end(const Usage& usage) override {
    Json last = take_line();
    last["done"] = true;
    last["done_reason"] = reason_;
    last["total_duration"] = nanoseconds(call_->load_seconds + usage.queue_seconds +
                                         usage.prefill_seconds + usage.decode_seconds);
    last["load_duration"] = nanoseconds(call_->load_seconds);
    last["prompt_eval_count"] = usage.prompt_tokens;
    last["prompt_eval_duration"] = nanoseconds(usage.prefill_seconds);
    last["eval_count"] = usage.new_tokens;
    last["eval_duration"] = nanoseconds(usage.decode_seconds);
    if (!stream_) return send_json(app_, *call_, last);
    if (!failed_) write(last);
    call_->response->finish();
  }

 private:
  void add(const text::ReplyPart& part) {
    if (part.kind == Kind::content) content_ += part.text;
    if (part.kind == Kind::reasoning) thinking_ += part.text;
    if (part.kind == Kind::tool_begin) call_name_ = part.text;
    if (part.kind == Kind::tool_arguments) arguments_ += part.text;
    if (part.kind != Kind::tool_end) return;
    // Whole calls, their arguments as an object.
    const auto arguments = parse_json(std::exchange(arguments_, {}));
    Json call = Json::object();
    call["function"]["index"] = part.tool;
    call["function"]["name"] = std::exchange(call_name_, {});
    call["function"]["arguments"] = arguments ? *arguments : Json::object();
    calls_.push_back(std::move(call));
  }

  Json take_line() {
    Json out = line(model_, is_chat_, std::exchange(content_, {}), std::exchange(thinking_, {}));
    if (!calls_.empty()) out["message"]["tool_calls"] = std::exchange(calls_, Json::array());
    return out;
  }

  void write(const Json& json) { call_->response->write(to_text(json) + "\n"); }

  App& app_;
  CallPtr call_;
  std::string model_, content_, thinking_, reason_;
  std::string call_name_, arguments_;  // of a call that has no end yet
  Json calls_ = Json::array();         // not sent yet
  bool is_chat_, stream_, failed_ = false;
};

// No prompt asks for the model to be loaded (which it is by now), or to be let go.
void answer_load(App& app, const Call& call, const std::string& model, std::string_view reason) {
  Json out = line(model, call.request.path == "/api/chat", "", "");
  out["done"] = true;
  out["done_reason"] = reason;
  send_json(app, call, out);
}

ApiStatus unload(App& app, const Call& call, const Json& body) {
  ORRERY_TRY(const auto name, get_string(body, "model", 1U << 20));
  ORRERY_TRY(const ModelStatus status, app.models.describe(name.value_or("")));
  ORRERY_TRY_VOID(app.models.unload(status.id));
  answer_load(app, call, status.id, "unload");
  return {};
}

ApiStatus start(App& app, const CallPtr& call, const OllamaOptions& options,
                std::vector<text::TokenId> tokens, bool is_chat) {
  Prompt prompt{
      options.model.get(), std::move(tokens), options.generation, call->domain, {}, nullptr};
  if (is_chat) {
    ORRERY_TRY_VOID(read_chat(options.form, prompt));
  } else {
    ORRERY_TRY_VOID(hold_to(options.form, prompt));
  }
  auto sink = std::make_shared<LineSink>(app, call, options.model->id, is_chat, options.stream);
  ORRERY_TRY_VOID(generate(std::move(prompt), std::move(sink), *call, app.metrics));
  if (options.stream) begin_stream(app, *call, std::string(kLines), "");
  return {};
}

ApiStatus check_writes(const ServedModel& model) {
  if (model.scheduler != nullptr) return {};
  return std::unexpected(not_generative(model));
}

}  // namespace

ApiStatus ollama_chat(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  if (asks_to_unload(*call, body)) return unload(app, *call, body);
  ORRERY_TRY(const OllamaOptions options, parse_ollama_options(app.models, body));
  ORRERY_TRY_VOID(check_writes(*options.model));
  const Json* messages = find(body, "messages");
  if (messages == nullptr || messages->empty()) {
    answer_load(app, *call, options.model->id, "load");
    return {};
  }
  Conversation conversation;
  ORRERY_TRY(conversation.messages, parse_messages(body));
  const Json* think = find(body, "think");
  if (think != nullptr && think->is_boolean()) conversation.variables["enable_thinking"] = *think;
  conversation.tools = options.form.tools;
  ORRERY_TRY(auto tokens, chat_tokens(*options.model, conversation));
  return start(app, call, options, std::move(tokens), true);
}

ApiStatus ollama_generate(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  if (asks_to_unload(*call, body)) return unload(app, *call, body);
  ORRERY_TRY(const OllamaOptions options, parse_ollama_options(app.models, body));
  ORRERY_TRY_VOID(check_writes(*options.model));
  ORRERY_TRY(const auto text, get_string(body, "prompt", SIZE_MAX));
  ORRERY_TRY(const auto system, get_string(body, "system", SIZE_MAX));
  ORRERY_TRY(const bool raw, get_bool(body, "raw", false));
  if (options.form.kind == AnswerForm::Kind::tools) {
    return refuse(400, "tools are for /api/chat", "tools");
  }
  if (!text || text->empty()) {
    answer_load(app, *call, options.model->id, "load");
    return {};
  }
  if (raw || !options.model->model->has_chat_template()) {
    auto tokens = options.model->model->tokenizer().encode(
        *text, {.add_special = !raw, .parse_special = raw});
    return start(app, call, options, std::move(tokens), false);
  }
  Conversation conversation;
  const auto add = [&](std::string_view role, const std::string& content) {
    Json message = Json::object();
    message["role"] = role;
    message["content"] = content;
    conversation.messages.push_back(std::move(message));
  };
  if (system && !system->empty()) add("system", *system);
  add("user", *text);
  ORRERY_TRY(auto tokens, chat_tokens(*options.model, conversation));
  return start(app, call, options, std::move(tokens), false);
}

}  // namespace orrery::server
