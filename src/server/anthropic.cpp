// POST /v1/messages and POST /v1/messages/count_tokens.
#include <utility>

#include "server/anthropic_messages.hpp"
#include "server/forms.hpp"
#include "server/generation.hpp"
#include "server/handlers.hpp"

namespace orrery::server {
namespace {

using Kind = text::ReplyPart::Kind;

constexpr std::string_view kPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

std::string event(std::string_view type, Json data) {
  Json out = Json::object();
  out["type"] = type;
  for (auto& [key, value] : data.items()) out[key] = value;
  return "event: " + std::string(type) + "\ndata: " + to_text(out) + "\n\n";
}

std::string_view stop_reason(const ChoiceEnd& end) {
  if (end.finish == engine::FinishReason::stop_string) return "stop_sequence";
  if (end.finish == engine::FinishReason::length) return "max_tokens";
  if (end.finish == engine::FinishReason::context) return "model_context_window_exceeded";
  if (end.called_tools) return "tool_use";
  return "end_turn";
}

Json usage_object(std::uint32_t prompt, std::uint32_t cached, std::uint32_t answer) {
  Json out = Json::object();
  out["input_tokens"] = prompt - cached;
  out["cache_creation_input_tokens"] = 0;
  out["cache_read_input_tokens"] = cached;
  out["output_tokens"] = answer;
  return out;
}

class MessageSink final : public Sink {
 public:
  MessageSink(App& app, CallPtr call, std::string model, bool stream)
      : app_(app), call_(std::move(call)), model_(std::move(model)), stream_(stream) {}

  void on_start(std::uint32_t prompt_tokens) override {
    if (!stream_) return;
    Json data = Json::object();
    data["message"] = message(Json::array(), usage_object(prompt_tokens, 0, 0));
    call_->response->write(event("message_start", std::move(data)));
  }

  bool on_token(std::uint32_t, std::span<const text::ReplyPart> parts,
                const TokenLogprobs*) override {
    for (const text::ReplyPart& part : parts) add(part);
    return !call_->response->is_gone();
  }

  void on_choice_end(std::uint32_t, const ChoiceEnd& end) override {
    reason_ = stop_reason(end);
    stop_sequence_ = end.stop_string;
    if (end.error == nullptr) return;
    failed_ = true;
    if (!stream_) return send_error(app_, *call_, *end.error);
    Json data = error_object(Dialect::anthropic, *end.error);
    data.erase("type");
    call_->response->write(event("error", std::move(data)));
  }

  void on_end(const Usage& usage) override {
    const Json counts = usage_object(usage.prompt_tokens, usage.cached_tokens, usage.new_tokens);
    if (!stream_) {
      Json content = Json::array();
      for (const Block& block : blocks_) content.push_back(block_object(block));
      return send_json(app_, *call_,
                       message(std::move(content), counts));  // nothing after an error
    }
    if (!failed_) {
      close_block();
      Json data = Json::object();
      data["delta"]["stop_reason"] = reason_;
      data["delta"]["stop_sequence"] = sequence();
      data["usage"] = counts;
      call_->response->write(event("message_delta", std::move(data)));
      call_->response->write(event("message_stop", Json::object()));
    }
    call_->response->finish();
  }

 private:
  enum class Type : std::uint8_t { text, thinking, tool_use };
  struct Block {
    Type type = Type::text;
    std::string text;      // of a call: the JSON text of its input
    std::string name, id;  // of a call
  };

  void add(const text::ReplyPart& part) {
    if (part.kind == Kind::tool_end) return;
    const Type type = part.kind == Kind::content     ? Type::text
                      : part.kind == Kind::reasoning ? Type::thinking
                                                     : Type::tool_use;
    const bool begins = part.kind == Kind::tool_begin;
    if (begins || blocks_.empty() || blocks_.back().type != type) {
      open_block(type, begins ? part.text : "");
    }
    if (begins) return;
    blocks_.back().text += part.text;
    if (!stream_) return;
    if (type == Type::text) write_delta("text_delta", "text", part.text);
    if (type == Type::thinking) write_delta("thinking_delta", "thinking", part.text);
    if (type == Type::tool_use) write_delta("input_json_delta", "partial_json", part.text);
  }

  Json sequence() const { return stop_sequence_.empty() ? Json(nullptr) : Json(stop_sequence_); }

  Json message(Json content, Json usage) const {
    Json out = Json::object();
    out["id"] = id_;
    out["type"] = "message";
    out["role"] = "assistant";
    out["model"] = model_;
    out["content"] = std::move(content);
    out["stop_reason"] = reason_.empty() ? Json(nullptr) : Json(reason_);
    out["stop_sequence"] = sequence();
    out["usage"] = std::move(usage);
    return out;
  }

  static Json block_object(const Block& block) {
    Json out = Json::object();
    if (block.type == Type::tool_use) {
      const auto input = parse_json(block.text);
      out["type"] = "tool_use";
      out["id"] = block.id;
      out["name"] = block.name;
      out["input"] = input ? *input : Json::object();
      return out;
    }
    const bool thinks = block.type == Type::thinking;
    out["type"] = thinks ? "thinking" : "text";
    out[thinks ? "thinking" : "text"] = block.text;
    if (thinks) out["signature"] = "";
    return out;
  }

  Json at_block() const {
    Json data = Json::object();
    data["index"] = blocks_.size() - 1;
    return data;
  }

  void write_delta(std::string_view type, std::string_view name, const std::string& text) {
    Json data = at_block();
    data["delta"]["type"] = type;
    data["delta"][std::string(name)] = text;
    call_->response->write(event("content_block_delta", std::move(data)));
  }

  void open_block(Type type, std::string name) {
    if (stream_) close_block();
    blocks_.push_back({type, "", std::move(name), type == Type::tool_use ? new_id("toolu_") : ""});
    if (!stream_) return;
    Json data = at_block();
    data["content_block"] = block_object(blocks_.back());
    call_->response->write(event("content_block_start", std::move(data)));
  }

  void close_block() {
    if (blocks_.empty()) return;
    if (blocks_.back().type == Type::thinking) write_delta("signature_delta", "signature", "");
    call_->response->write(event("content_block_stop", at_block()));
  }

  App& app_;
  CallPtr call_;
  std::string id_ = new_id("msg_"), model_, reason_, stop_sequence_;
  bool stream_, failed_ = false;
  std::vector<Block> blocks_;
};

ApiResult<std::shared_ptr<ServedModel>> find_writer(const App& app, const Json& body) {
  ORRERY_TRY(const auto name, get_string(body, "model", 1U << 20));
  return app.models.find_writer(name.value_or(""));
}

}  // namespace

ApiStatus anthropic_messages(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(const AnswerForm form, parse_anthropic_form(body));
  ORRERY_TRY(const auto model, find_writer(app, body));
  Prompt prompt{model.get(), {}, {}, call->domain, {}, nullptr};
  ORRERY_TRY(prompt.options.sampling, parse_sampling(body, *model));
  ORRERY_TRY(prompt.options.stop, parse_stop(body, "stop_sequences"));
  ORRERY_TRY(const auto most, get_integer(body, "max_tokens", 1, INT32_MAX));
  if (!most) return refuse(400, "max_tokens is missing", "max_tokens");
  prompt.options.max_tokens = static_cast<std::uint32_t>(*most);
  ORRERY_TRY(const bool stream, get_bool(body, "stream", false));
  ORRERY_TRY(Conversation conversation, parse_anthropic(body));
  conversation.tools = form.tools;
  ORRERY_TRY(prompt.tokens, chat_tokens(*model, conversation));
  ORRERY_TRY_VOID(read_chat(form, prompt));
  auto sink = std::make_shared<MessageSink>(app, call, model->id, stream);
  ORRERY_TRY_VOID(generate(std::move(prompt), std::move(sink), *call, app.metrics));
  if (stream) begin_stream(app, *call, "text/event-stream", std::string(kPing));
  return {};
}

ApiStatus anthropic_count_tokens(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(const AnswerForm form, parse_anthropic_form(body));
  ORRERY_TRY(const auto model, find_writer(app, body));
  ORRERY_TRY(Conversation conversation, parse_anthropic(body));
  conversation.tools = form.tools;
  ORRERY_TRY(const auto tokens, chat_tokens(*model, conversation));
  Json out = Json::object();
  out["input_tokens"] = tokens.size();
  send_json(app, *call, out);
  return {};
}

}  // namespace orrery::server
