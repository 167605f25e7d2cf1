// POST /v1/chat/completions.
#include <fmt/format.h>

#include <utility>

#include "server/handlers.hpp"
#include "server/messages.hpp"
#include "server/openai_format.hpp"

namespace orrery::server {
namespace {

using Kind = text::ReplyPart::Kind;

// What every chunk or the whole answer is headed by.
struct Header {
  std::string id, model;
  std::int64_t created = 0;

  Json object(std::string_view kind) const {
    Json out = Json::object();
    out["id"] = id;
    out["object"] = kind;
    out["created"] = created;
    out["model"] = model;
    out["system_fingerprint"] = "orrery";
    return out;
  }
};

class ChatStream final : public Sink {
 public:
  ChatStream(CallPtr call, Header header, const OpenaiOptions& options)
      : call_(std::move(call)),
        header_(std::move(header)),
        model_(options.model.get()),
        include_usage_(options.include_usage),
        choices_(options.generation.n) {}

  bool on_token(std::uint32_t choice, std::span<const text::ReplyPart> parts,
                const TokenLogprobs* logprobs) override {
    Choice& state = choices_[choice];
    if (logprobs != nullptr) {
      state.logprobs.push_back(logprob_object(model_->model->tokenizer(), *logprobs));
    }
    begin(choice);
    bool heard = !call_->response->is_gone();
    for (const text::ReplyPart& part : parts) {
      Json delta = part_delta(part);
      if (!delta.empty()) heard = write(choice, std::move(delta), nullptr);
    }
    return heard;
  }

  void on_choice_end(std::uint32_t choice, const ChoiceEnd& end) override {
    begin(choice);
    if (end.error != nullptr) {
      call_->response->write(sse(error_object(Dialect::openai, *end.error)));
    } else {
      write(choice, Json::object(), finish_text(end));
    }
  }

  void on_end(const Usage& usage) override {
    if (include_usage_) {
      Json chunk = header_.object("chat.completion.chunk");
      chunk["choices"] = Json::array();
      chunk["usage"] = usage_object(usage);
      chunk["timings"] = timings_object(usage);
      call_->response->write(sse(chunk));
    }
    call_->response->write(kSseDone);
    call_->response->finish();
  }

 private:
  struct Choice {
    bool begun = false;
    Json logprobs = Json::array();  // of tokens whose text has not been sent yet
  };

  void begin(std::uint32_t choice) {
    if (std::exchange(choices_[choice].begun, true)) return;
    Json delta = Json::object();
    delta["role"] = "assistant";
    delta["content"] = "";
    write(choice, std::move(delta), nullptr, false);
  }

  static Json part_delta(const text::ReplyPart& part) {
    Json delta = Json::object();
    if (part.kind == Kind::content) delta["content"] = part.text;
    if (part.kind == Kind::reasoning) delta["reasoning_content"] = part.text;
    if (part.kind != Kind::tool_begin && part.kind != Kind::tool_arguments) return delta;
    Json call = Json::object();
    call["index"] = part.tool;
    if (part.kind == Kind::tool_begin) {
      call["id"] = new_id("call_");
      call["type"] = "function";
      call["function"]["name"] = part.text;
      call["function"]["arguments"] = "";
    } else {
      call["function"]["arguments"] = part.text;
    }
    delta["tool_calls"] = Json::array({std::move(call)});
    return delta;
  }

  bool write(std::uint32_t choice, Json delta, Json finish, bool with_logprobs = true) {
    Json item = Json::object();
    item["index"] = choice;
    item["delta"] = std::move(delta);
    Json& logprobs = choices_[choice].logprobs;
    if (with_logprobs && !logprobs.empty()) {
      item["logprobs"]["content"] = std::exchange(logprobs, Json::array());
    }
    item["finish_reason"] = std::move(finish);
    Json chunk = header_.object("chat.completion.chunk");
    chunk["choices"] = Json::array({std::move(item)});
    return call_->response->write(sse(chunk));
  }

  CallPtr call_;
  Header header_;
  const ServedModel* model_;
  bool include_usage_;
  std::vector<Choice> choices_;
};

class ChatWhole final : public Sink {
 public:
  ChatWhole(App& app, CallPtr call, Header header, const OpenaiOptions& options)
      : app_(app),
        call_(std::move(call)),
        header_(std::move(header)),
        model_(options.model.get()),
        choices_(options.generation.n) {}

  bool on_token(std::uint32_t choice, std::span<const text::ReplyPart> parts,
                const TokenLogprobs* logprobs) override {
    Choice& state = choices_[choice];
    if (logprobs != nullptr) {
      state.logprobs.push_back(logprob_object(model_->model->tokenizer(), *logprobs));
    }
    for (const text::ReplyPart& part : parts) state.add(part);
    return !call_->response->is_gone();
  }

  void on_choice_end(std::uint32_t choice, const ChoiceEnd& end) override {
    choices_[choice].finish = finish_text(end);
    if (end.error != nullptr) send_error(app_, *call_, *end.error);
  }

  void on_end(const Usage& usage) override {
    Json out = header_.object("chat.completion");
    out["choices"] = Json::array();
    for (Choice& choice : choices_) {
      Json item = Json::object();
      item["index"] = out["choices"].size();
      item["message"] = choice.message();
      item["logprobs"] = nullptr;
      if (!choice.logprobs.empty()) {
        item["logprobs"] = Json::object();
        item["logprobs"]["content"] = std::move(choice.logprobs);
      }
      item["finish_reason"] = choice.finish;
      out["choices"].push_back(std::move(item));
    }
    out["usage"] = usage_object(usage);
    out["timings"] = timings_object(usage);
    send_json(app_, *call_, out);  // after an error: nothing
  }

 private:
  struct Choice {
    std::string content, reasoning, finish;
    Json tools = Json::array();
    Json logprobs = Json::array();

    void add(const text::ReplyPart& part) {
      if (part.kind == Kind::content) content += part.text;
      if (part.kind == Kind::reasoning) reasoning += part.text;
      if (part.kind == Kind::tool_begin) {
        Json call = Json::object();
        call["id"] = new_id("call_");
        call["type"] = "function";
        call["function"]["name"] = part.text;
        call["function"]["arguments"] = "";
        tools.push_back(std::move(call));
      }
      if (part.kind == Kind::tool_arguments && !tools.empty()) {
        tools.back()["function"]["arguments"].get_ref<std::string&>() += part.text;
      }
    }
    Json message() {
      Json out = Json::object();
      out["role"] = "assistant";
      out["content"] = content.empty() && !tools.empty() ? Json(nullptr) : Json(content);
      if (!reasoning.empty()) out["reasoning_content"] = reasoning;
      if (!tools.empty()) out["tool_calls"] = std::move(tools);
      return out;
    }
  };

  App& app_;
  CallPtr call_;
  Header header_;
  const ServedModel* model_;
  std::vector<Choice> choices_;
};

ApiStatus parse_logprobs(const Json& body, GenerationOptions& options) {
  ORRERY_TRY(const bool wanted, get_bool(body, "logprobs", false));
  ORRERY_TRY(const auto top, get_integer(body, "top_logprobs", 0, kMaxTopLogprobs));
  if (top && *top > 0 && !wanted) {
    return refuse(400, "top_logprobs needs logprobs: true", "top_logprobs", "invalid_value");
  }
  if (wanted) options.want_logprobs(static_cast<std::uint32_t>(top.value_or(0)));
  return {};
}

}  // namespace

ApiStatus openai_chat(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(OpenaiOptions options, parse_openai_options(app.models, body));
  ORRERY_TRY_VOID(parse_logprobs(body, options.generation));
  Conversation conversation;
  ORRERY_TRY(conversation.messages, parse_messages(body));
  ORRERY_TRY(conversation.variables, parse_template_variables(body));
  conversation.tools = options.form.tools;
  Prompt prompt{options.model.get(), {}, options.generation, call->domain, {}, nullptr};
  ORRERY_TRY(prompt.tokens, chat_tokens(*options.model, conversation));
  ORRERY_TRY_VOID(read_chat(options.form, prompt));
  Header header{new_id("chatcmpl-"), options.model->id, unix_seconds()};
  std::shared_ptr<Sink> sink;
  if (options.stream) {
    sink = std::make_shared<ChatStream>(call, std::move(header), options);
  } else {
    sink = std::make_shared<ChatWhole>(app, call, std::move(header), options);
  }
  ORRERY_TRY_VOID(generate(std::move(prompt), std::move(sink), *call, app.metrics));
  if (options.stream) begin_stream(app, *call, "text/event-stream", std::string(kSseProbe));
  return {};
}

}  // namespace orrery::server
