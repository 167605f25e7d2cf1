// POST /v1/completions: text that is continued as it is.
#include <fmt/format.h>

#include <utility>

#include "server/handlers.hpp"
#include "server/inputs.hpp"
#include "server/openai_format.hpp"

namespace orrery::server {
namespace {

struct Header {
  std::string id, model, echo;  // echo: what stands before each answer
  std::int64_t created = 0;

  Json object() const {
    Json out = Json::object();
    out["id"] = id;
    out["object"] = "text_completion";
    out["created"] = created;
    out["model"] = model;
    out["system_fingerprint"] = "orrery";
    return out;
  }
};

// The old form: lists that run beside each other.
struct Logprobs {
  Json tokens = Json::array(), values = Json::array(), top = Json::array(), offsets = Json::array();
  std::size_t offset = 0;

  void add(const text::Tokenizer& tokenizer, const TokenLogprobs& logprobs) {
    const std::string piece(tokenizer.piece(logprobs.chosen.id));
    tokens.push_back(piece);
    values.push_back(logprobs.chosen.logprob);
    Json best = Json::object();
    for (const engine::TokenLogprob& token : logprobs.best) {
      best[std::string(tokenizer.piece(token.id))] = token.logprob;
    }
    top.push_back(std::move(best));
    offsets.push_back(offset);
    offset += piece.size();
  }
  Json take() {
    if (tokens.empty()) return nullptr;
    Json out = Json::object();
    out["tokens"] = std::exchange(tokens, Json::array());
    out["token_logprobs"] = std::exchange(values, Json::array());
    out["top_logprobs"] = std::exchange(top, Json::array());
    out["text_offset"] = std::exchange(offsets, Json::array());
    return out;
  }
};

class CompletionSink final : public Sink {
 public:
  CompletionSink(App& app, CallPtr call, Header header, const OpenaiOptions& options)
      : app_(app),
        call_(std::move(call)),
        header_(std::move(header)),
        model_(options.model.get()),
        stream_(options.stream),
        include_usage_(options.include_usage),
        choices_(options.generation.n) {
    for (Choice& choice : choices_) choice.text = header_.echo;
  }

  bool on_token(std::uint32_t choice, std::span<const text::ReplyPart> parts,
                const TokenLogprobs* logprobs) override {
    Choice& state = choices_[choice];
    if (logprobs != nullptr) state.logprobs.add(model_->model->tokenizer(), *logprobs);
    for (const text::ReplyPart& part : parts) state.text += part.text;
    if (!stream_ || state.text.empty()) return !call_->response->is_gone();
    return write_chunk(choice, nullptr);
  }

  void on_choice_end(std::uint32_t choice, const ChoiceEnd& end) override {
    choices_[choice].finish = finish_text(end);
    if (end.error != nullptr && !stream_) return send_error(app_, *call_, *end.error);
    if (!stream_) return;
    if (end.error != nullptr) {
      call_->response->write(sse(error_object(Dialect::openai, *end.error)));
    } else {
      write_chunk(choice, finish_text(end));
    }
  }

  void on_end(const Usage& usage) override {
    Json out = header_.object();
    out["choices"] = Json::array();
    if (!stream_) {
      for (std::uint32_t i = 0; i < choices_.size(); ++i) {
        out["choices"].push_back(choice_object(i, choices_[i].finish));
      }
    }
    out["usage"] = usage_object(usage);
    out["timings"] = timings_object(usage);
    if (!stream_) return send_json(app_, *call_, out);
    if (include_usage_) call_->response->write(sse(out));
    call_->response->write(kSseDone);
    call_->response->finish();
  }

 private:
  struct Choice {
    std::string text, finish;  // text: what has not been sent yet
    Logprobs logprobs;
  };

  Json choice_object(std::uint32_t choice, Json finish) {
    Json item = Json::object();
    item["index"] = choice;
    item["text"] = std::exchange(choices_[choice].text, {});
    item["logprobs"] = choices_[choice].logprobs.take();
    item["finish_reason"] = std::move(finish);
    return item;
  }

  bool write_chunk(std::uint32_t choice, Json finish) {
    Json chunk = header_.object();
    chunk["choices"] = Json::array({choice_object(choice, std::move(finish))});
    return call_->response->write(sse(chunk));
  }

  App& app_;
  CallPtr call_;
  Header header_;
  const ServedModel* model_;
  bool stream_, include_usage_;
  std::vector<Choice> choices_;
};

ApiStatus parse_extras(const Json& body, OpenaiOptions& options, bool& echo) {
  ORRERY_TRY(const auto top, get_integer(body, "logprobs", 0, kMaxTopLogprobs));
  if (top) options.generation.want_logprobs(static_cast<std::uint32_t>(*top));
  ORRERY_TRY(echo, get_bool(body, "echo", false));
  if (echo && top) {
    return refuse(501, "logprobs of the prompt (echo with logprobs) are not to be had", "echo",
                  "not_supported");
  }
  ORRERY_TRY(const auto best_of, get_integer(body, "best_of", 1, kMaxChoices));
  if (best_of && *best_of != options.generation.n) {
    return refuse(400, "best_of must be the same as n", "best_of", "invalid_value");
  }
  if (options.form.kind == AnswerForm::Kind::tools) {
    return refuse(400, "tools are for /v1/chat/completions", "tools", "invalid_value");
  }
  if (find(body, "suffix") != nullptr) {
    ORRERY_TRY(const auto suffix, get_string(body, "suffix", 0));
  }
  // The endpoint's own default, which its clients count on.
  const bool limited = find(body, "max_tokens") || find(body, "max_completion_tokens");
  if (!limited) options.generation.max_tokens = 16;
  return {};
}

}  // namespace

ApiStatus openai_completions(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(OpenaiOptions options, parse_openai_options(app.models, body));
  bool echo = false;
  ORRERY_TRY_VOID(parse_extras(body, options, echo));
  ORRERY_TRY(auto inputs, parse_inputs(body, "prompt", *options.model, {.add_special = true}));
  if (inputs.size() > 1) {
    return refuse(400, "one prompt at a time: prompt must be one text or one list of token ids",
                  "prompt", "invalid_prompt");
  }
  Header header{new_id("cmpl-"), options.model->id, "", unix_seconds()};
  if (echo) header.echo = options.model->model->tokenizer().decode(inputs[0], false);
  Prompt prompt{
      options.model.get(), std::move(inputs[0]), options.generation, call->domain, {}, nullptr};
  ORRERY_TRY_VOID(hold_to(options.form, prompt));
  auto sink = std::make_shared<CompletionSink>(app, call, std::move(header), options);
  ORRERY_TRY_VOID(generate(std::move(prompt), std::move(sink), *call, app.metrics));
  if (options.stream) begin_stream(app, *call, "text/event-stream", std::string(kSseProbe));
  return {};
}

}  // namespace orrery::server
