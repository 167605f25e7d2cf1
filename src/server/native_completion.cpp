// POST /completion: a text that is continued, in llama.cpp's form.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "server/handlers.hpp"
#include "server/native_request.hpp"
#include "server/openai_format.hpp"

namespace orrery::server {
namespace {

using Tokens = std::vector<text::TokenId>;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// How probable a token was, as the model or the draw had it.
Json probability_object(const text::Tokenizer& tokenizer, const engine::TokenLogprob& token,
                        bool of_draw) {
  const std::string_view piece = tokenizer.piece(token.id);
  Json out = Json::object();
  out["id"] = token.id;
  out["token"] = std::string(piece);
  out["bytes"] = Json::array();
  for (const char c : piece) out["bytes"].push_back(static_cast<unsigned char>(c));
  if (of_draw) {
    out["prob"] = std::exp(token.logprob);
  } else {
    out["logprob"] = token.logprob;
  }
  return out;
}

std::string_view stop_type(const engine::RequestEnd& end) {
  switch (end.finish) {
    case engine::FinishReason::end_of_turn:
      return "eos";
    case engine::FinishReason::stop_string:
      return "word";
    default:
      return "limit";
  }
}

// The members of these paths, each under its path.
Json only(const std::vector<std::string>& paths, const Json& object) {
  Json out = Json::object();
  for (const std::string& path : paths) {
    const Json* at = &object;
    for (std::size_t begin = 0; at != nullptr && begin <= path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      at = find(*at, std::string_view(path).substr(begin, end - begin));
      begin = end + 1;
    }
    if (at != nullptr) out[path] = *at;
  }
  return out;
}

class NativeSink final : public Sink {
 public:
  NativeSink(App& app, CallPtr call, NativeOptions options, std::vector<Tokens> prompts)
      : app_(app),
        call_(std::move(call)),
        options_(std::move(options)),
        model_(options_.model.get()),
        choices_(prompts.size()) {
    options_.model.reset();  // see Prompt::model
    for (std::size_t i = 0; i < prompts.size(); ++i) choices_[i].prompt = std::move(prompts[i]);
  }

  void on_prefill(std::uint32_t done, std::uint32_t total) override {
    if (!options_.stream || !options_.return_progress) return;
    const auto all = static_cast<std::uint32_t>(choices_[0].prompt.size());
    Json chunk = head(0);
    chunk["prompt_progress"]["total"] = all;
    chunk["prompt_progress"]["cache"] = all - total;
    chunk["prompt_progress"]["processed"] = all - total + done;
    chunk["prompt_progress"]["time_ms"] = seconds_since(begin_) * 1e3;
    call_->response->write(sse(chunk));
  }

  void hear_token(std::uint32_t index, const engine::TokenEvent& event) override {
    Choice& choice = choices_[index];
    if (!options_.writes) return;
    if (choice.n_tokens++ == 0) choice.first_token = Clock::now();
    choice.tokens.push_back(event.id);
    if (!options_.generation.logprobs) return;
    const bool of_draw = options_.generation.sampling.logprobs_of_draw;
    const text::Tokenizer& tokenizer = model_->model->tokenizer();
    Json token = probability_object(tokenizer, event.chosen, of_draw);
    Json& best = token[of_draw ? "top_probs" : "top_logprobs"] = Json::array();
    for (const engine::TokenLogprob& other : event.logprobs) {
      best.push_back(probability_object(tokenizer, other, of_draw));
    }
    choice.probabilities.push_back(std::move(token));
  }

  bool on_token(std::uint32_t index, std::span<const text::ReplyPart> parts,
                const TokenLogprobs* /*logprobs*/) override {
    Choice& choice = choices_[index];
    if (!options_.writes) return true;
    for (const text::ReplyPart& part : parts) {
      choice.has_new_line |= part.text.contains('\n');
      choice.text += part.text;
    }
    const bool is_over = options_.most_seconds && choice.has_new_line &&
                         seconds_since(choice.first_token) > *options_.most_seconds;
    if (!options_.stream || choice.text.empty()) return !is_over && !call_->response->is_gone();
    return call_->response->write(sse(chunk(index))) && !is_over;
  }

  void hear_end(std::uint32_t index, const engine::RequestEnd& end) override {
    choices_[index].end = end;
  }

  void on_choice_end(std::uint32_t index, const ChoiceEnd& end) override {
    if (end.error != nullptr) return fail_with(*end.error);
    if (!options_.stream) return;
    call_->response->write(sse(final_object(index)));
  }

  void on_end(const Usage& /*usage*/) override {
    if (options_.stream) return call_->response->finish();
    if (has_failed_) return;
    Json all = Json::array();
    for (std::uint32_t i = 0; i < choices_.size(); ++i) all.push_back(final_object(i));
    send_json(app_, *call_, all.size() == 1 ? all.front() : all);
  }

 private:
  struct Choice {
    Tokens prompt;
    // Not sent yet.
    std::string text;
    Tokens tokens;
    Json probabilities = Json::array();

    std::uint32_t n_tokens = 0;
    bool has_new_line = false;
    Clock::time_point first_token;
    engine::RequestEnd end;
  };

  void fail_with(const ApiError& error) {
    if (options_.stream) {
      call_->response->write(sse(error_object(Dialect::openai, error)));
    } else if (!std::exchange(has_failed_, true)) {
      send_error(app_, *call_, error);
    }
  }

  // What is not sent yet, as every chunk has it.
  Json head(std::uint32_t index) {
    Choice& choice = choices_[index];
    Json out = Json::object();
    out["index"] = index;
    out["content"] = std::exchange(choice.text, {});
    out["tokens"] = Json::array();
    const bool shows = options_.stream || options_.return_tokens;
    for (const text::TokenId id : std::exchange(choice.tokens, {})) {
      if (shows) out["tokens"].push_back(id);
    }
    out["stop"] = false;
    out["model"] = model_->id;
    out["tokens_predicted"] = choice.n_tokens;
    out["tokens_evaluated"] = choice.prompt.size();
    if (!choice.probabilities.empty()) {
      out["completion_probabilities"] = std::exchange(choice.probabilities, Json::array());
    }
    return out;
  }

  Json chunk(std::uint32_t index) {
    Json out = head(index);
    if (!options_.timings_per_token) return out;
    const Choice& choice = choices_[index];
    Usage usage;
    usage.prompt_tokens = static_cast<std::uint32_t>(choice.prompt.size());
    usage.new_tokens = choice.n_tokens;
    usage.decode_seconds = seconds_since(choice.first_token);
    // With the time in the queue: how it is divided is known at the end.
    usage.prefill_seconds = seconds_since(begin_) - usage.decode_seconds;
    out["timings"] = timings_object(usage);
    return out;
  }

  Json final_object(std::uint32_t index) {
    Json out = head(index);
    const Choice& choice = choices_[index];
    const engine::RequestEnd& end = choice.end;
    out["stop"] = true;
    out["id_slot"] = end.slot ? Json(*end.slot) : Json(-1);
    out["generation_settings"] = settings_object(options_);
    out["prompt"] = model_->model->tokenizer().decode(choice.prompt, true);
    out["has_new_line"] = choice.has_new_line;
    out["truncated"] = false;
    out["stop_type"] = stop_type(end);
    out["stopping_word"] = end.stop_string;
    out["tokens_cached"] = end.held_tokens;
    Usage usage;
    usage.prompt_tokens = end.prompt_tokens;
    usage.cached_tokens = end.reused_tokens;
    usage.new_tokens = choice.n_tokens;
    usage.prefill_seconds = end.prefill_seconds;
    usage.decode_seconds = end.decode_seconds;
    out["timings"] = timings_object(usage);
    return options_.fields.empty() ? out : only(options_.fields, out);
  }

  App& app_;
  CallPtr call_;
  NativeOptions options_;
  const ServedModel* model_;
  std::vector<Choice> choices_;
  const Clock::time_point begin_ = Clock::now();
  bool has_failed_ = false;
};

}  // namespace

ApiStatus complete(App& app, const CallPtr& call, NativeOptions options,
                   std::vector<Tokens> prompts) {
  GenerationOptions generation = options.generation;
  generation.n = static_cast<std::uint32_t>(prompts.size());
  const auto model = options.model;
  const bool stream = options.stream;
  Prompt prompt{model.get(), prompts[0], std::move(generation), call->domain, {}, nullptr};
  prompt.more.assign(prompts.begin() + 1, prompts.end());
  ORRERY_TRY_VOID(hold_to(options.form, prompt));
  auto sink = std::make_shared<NativeSink>(app, call, std::move(options), std::move(prompts));
  ORRERY_TRY_VOID(generate(std::move(prompt), std::move(sink), *call, app.metrics));
  if (stream) begin_stream(app, *call, "text/event-stream", std::string(kSseProbe));
  return {};
}

ApiStatus native_completion(App& app, const CallPtr& call) {
  ORRERY_TRY(const Json body, take_body(*call));
  ORRERY_TRY(NativeOptions options, parse_native_options(app.models, body));
  ORRERY_TRY(auto prompts, parse_native_prompts(body, *options.model));
  return complete(app, call, std::move(options), std::move(prompts));
}

}  // namespace orrery::server
