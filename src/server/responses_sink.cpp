#include "server/responses_sink.hpp"

#include <utility>

namespace orrery::server {

using Kind = text::ReplyPart::Kind;

ResponsesSink::ResponsesSink(App& app, CallPtr call, std::string model, Json echo, bool stream)
    : app_(app),
      call_(std::move(call)),
      model_(std::move(model)),
      echo_(std::move(echo)),
      stream_(stream) {}

void ResponsesSink::on_start(std::uint32_t) {
  for (const char* type : {"response.created", "response.in_progress"}) {
    Json data = Json::object();
    data["response"] = response("in_progress", nullptr);
    emit(type, std::move(data));
  }
}

bool ResponsesSink::on_token(std::uint32_t, std::span<const text::ReplyPart> parts,
                             const TokenLogprobs*) {
  for (const text::ReplyPart& part : parts) add(part);
  return !call_->response->is_gone();
}

void ResponsesSink::on_choice_end(std::uint32_t, const ChoiceEnd& end) {
  cut_off_ = is_cut_off(end);
  if (end.error == nullptr) return;
  if (!stream_) return send_error(app_, *call_, *end.error);
  error_ = Json::object();
  error_["code"] = end.error->code.empty() ? "server_error" : end.error->code;
  error_["message"] = end.error->message;
}

void ResponsesSink::on_end(const Usage& usage) {
  close();
  const std::string_view status = !error_.is_null() ? "failed"
                                  : cut_off_        ? "incomplete"
                                                    : "completed";
  Json whole = response(status, &usage);
  if (!stream_) return send_json(app_, *call_, whole);  // after an error: nothing
  Json data = Json::object();
  data["response"] = std::move(whole);
  emit("response." + std::string(status), std::move(data));
  call_->response->finish();
}

void ResponsesSink::add(const text::ReplyPart& part) {
  if (part.kind == Kind::tool_end) return close();
  const Type type = part.kind == Kind::content     ? Type::message
                    : part.kind == Kind::reasoning ? Type::reasoning
                                                   : Type::function_call;
  const bool begins = part.kind == Kind::tool_begin;
  const bool goes_on = !items_.empty() && !items_.back().is_done && items_.back().type == type;
  if (begins || !goes_on) open(type, begins ? part.text : "");
  if (begins) return;
  items_.back().text += part.text;
  Json data = place();
  data["delta"] = part.text;
  if (type == Type::function_call) {
    emit("response.function_call_arguments.delta", std::move(data));
  } else if (type == Type::reasoning) {
    data["content_index"] = 0;
    emit("response.reasoning_text.delta", std::move(data));
  } else {
    data["content_index"] = 0;
    data["logprobs"] = Json::array();
    emit("response.output_text.delta", std::move(data));
  }
}

void ResponsesSink::open(Type type, std::string name) {
  close();
  Item item{type, "", "", std::move(name), "", false};
  item.id = new_id(type == Type::message ? "msg_" : type == Type::reasoning ? "rs_" : "fc_");
  if (type == Type::function_call) item.call_id = new_id("call_");
  items_.push_back(std::move(item));
  Json data = Json::object();
  data["output_index"] = items_.size() - 1;
  data["item"] = item_object(items_.back());
  emit("response.output_item.added", std::move(data));
  if (type != Type::message) return;
  data = place();
  data["content_index"] = 0;
  data["part"] = content_part(items_.back());
  emit("response.content_part.added", std::move(data));
}

void ResponsesSink::close() {
  if (items_.empty() || items_.back().is_done) return;
  Item& item = items_.back();
  item.is_done = true;
  Json data = place();
  if (item.type == Type::function_call) {
    data["name"] = item.name;
    data["arguments"] = item.text;
    emit("response.function_call_arguments.done", std::move(data));
  } else {
    data["content_index"] = 0;
    Json text = data;
    text["text"] = item.text;
    if (item.type == Type::message) text["logprobs"] = Json::array();
    emit(item.type == Type::message ? "response.output_text.done" : "response.reasoning_text.done",
         std::move(text));
    if (item.type == Type::message) {
      data["part"] = content_part(item);
      emit("response.content_part.done", std::move(data));
    }
  }
  Json done = Json::object();
  done["output_index"] = items_.size() - 1;
  done["item"] = item_object(item);
  emit("response.output_item.done", std::move(done));
}

Json ResponsesSink::content_part(const Item& item) {
  Json part = Json::object();
  part["type"] = "output_text";
  part["text"] = item.text;
  part["annotations"] = Json::array();
  part["logprobs"] = Json::array();
  return part;
}

Json ResponsesSink::item_object(const Item& item) const {
  Json out = Json::object();
  out["id"] = item.id;
  if (item.type == Type::function_call) {
    out["type"] = "function_call";
    out["call_id"] = item.call_id;
    out["name"] = item.name;
    out["arguments"] = item.text;
  } else if (item.type == Type::reasoning) {
    out["type"] = "reasoning";
    out["summary"] = Json::array();
    Json text = Json::object();
    text["type"] = "reasoning_text";
    text["text"] = item.text;
    out["content"] = item.is_done ? Json::array({std::move(text)}) : Json::array();
  } else {
    out["type"] = "message";
    out["role"] = "assistant";
    out["content"] = item.is_done ? Json::array({content_part(item)}) : Json::array();
  }
  out["status"] = item.is_done ? "completed" : "in_progress";
  return out;
}

Json ResponsesSink::response(std::string_view status, const Usage* usage) const {
  Json out = Json::object();
  out["id"] = id_;
  out["object"] = "response";
  out["created_at"] = created_;
  out["status"] = status;
  out["error"] = error_;
  out["incomplete_details"] = nullptr;
  if (status == "incomplete") out["incomplete_details"]["reason"] = "max_output_tokens";
  out["model"] = model_;
  out["output"] = Json::array();
  for (const Item& item : items_) out["output"].push_back(item_object(item));
  for (const auto& [name, value] : echo_.items()) out[name] = value;
  out["previous_response_id"] = nullptr;
  out["store"] = false;
  out["usage"] = nullptr;
  if (usage == nullptr) return out;
  Json counts = Json::object();
  counts["input_tokens"] = usage->prompt_tokens;
  counts["input_tokens_details"]["cached_tokens"] = usage->cached_tokens;
  counts["output_tokens"] = usage->new_tokens;
  counts["output_tokens_details"]["reasoning_tokens"] = 0;
  counts["total_tokens"] = std::uint64_t{usage->prompt_tokens} + usage->new_tokens;
  out["usage"] = std::move(counts);
  return out;
}

void ResponsesSink::emit(std::string_view type, Json data) {
  if (!stream_) return;
  Json out = Json::object();
  out["type"] = type;
  out["sequence_number"] = events_++;
  for (auto& [name, value] : data.items()) out[name] = std::move(value);
  call_->response->write("event: " + std::string(type) + "\ndata: " + to_text(out) + "\n\n");
}

Json ResponsesSink::place() const {
  Json data = Json::object();
  data["item_id"] = items_.back().id;
  data["output_index"] = items_.size() - 1;
  return data;
}

}  // namespace orrery::server
