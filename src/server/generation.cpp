#include "server/generation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/metrics.hpp"

namespace orrery::server {
namespace {

// The requests of one client's request. The scheduler's thread calls the events; submitting and
// cancelling happen on others.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Prompt prompt, std::shared_ptr<Sink> sink, std::shared_ptr<LogEntry> log,
             Metrics& metrics)
      : prompt_(std::move(prompt)),
        sink_(std::move(sink)),
        log_(std::move(log)),
        metrics_(metrics),
        open_(prompt_.options.n) {}

  ApiStatus submit();
  void cancel();

  void on_prefill(std::uint32_t choice, std::uint32_t done, std::uint32_t total);
  void on_token(std::uint32_t choice, const engine::TokenEvent& event);
  void on_end(std::uint32_t choice, const engine::RequestEnd& end);

 private:
  std::span<const text::ReplyPart> split(std::uint32_t choice, std::string_view text, bool ends);

  Prompt prompt_;
  std::shared_ptr<Sink> sink_;
  std::shared_ptr<LogEntry> log_;  // null: nobody wants one
  Metrics& metrics_;
  std::mutex mutex_;  // of ids_, cancelled_ and ended_
  std::vector<engine::RequestId> ids_;
  bool cancelled_ = false, ended_ = false;
  // Of the scheduler's thread.
  std::uint32_t open_;
  bool started_ = false;
  std::vector<text::ReplyPart> parts_;
  std::vector<bool> called_;
  Usage usage_;
};

class ChoiceEvents final : public engine::RequestEvents {
 public:
  ChoiceEvents(std::shared_ptr<Generation> generation, std::uint32_t choice)
      : generation_(std::move(generation)), choice_(choice) {}
  void on_prefill(std::uint32_t done, std::uint32_t total) override {
    generation_->on_prefill(choice_, done, total);
  }
  void on_token(const engine::TokenEvent& event) override { generation_->on_token(choice_, event); }
  void on_end(const engine::RequestEnd& end) override { generation_->on_end(choice_, end); }

 private:
  std::shared_ptr<Generation> generation_;
  std::uint32_t choice_;
};

ApiStatus Generation::submit() {
  const GenerationOptions& options = prompt_.options;
  called_.assign(options.n, false);
  const std::vector<engine::AdapterUse> adapters =
      options.adapters ? *options.adapters : uses_of(prompt_.model->adapters.of(prompt_.domain));
  for (std::uint32_t choice = 0; choice < options.n; ++choice) {
    engine::Request request;
    const bool is_other = choice > 0 && !prompt_.more.empty();
    request.prompt = is_other ? prompt_.more[choice - 1] : prompt_.tokens;
    request.sampling = options.sampling;
    if (request.sampling.seed && prompt_.more.empty()) *request.sampling.seed += choice;
    request.max_tokens = options.max_tokens;
    request.stop = options.stop;
    request.ignore_end = options.ignore_end;
    request.overflow = prompt_.model->overflow;
    request.domain = prompt_.domain;
    request.shown = prompt_.shown;
    request.slot = options.slot;
    request.reuses = options.reuses;
    request.adapters = adapters;
    if (prompt_.constraint != nullptr) request.constraint = prompt_.constraint->start();
    auto id = prompt_.model->scheduler->submit(
        std::move(request), std::make_shared<ChoiceEvents>(shared_from_this(), choice));
    if (!id) {
      cancel();
      return std::unexpected(api_error(id.error()));
    }
    const std::lock_guard lock(mutex_);
    ids_.push_back(*id);
    if (cancelled_) prompt_.model->scheduler->cancel(*id);
  }
  return {};
}

void Generation::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (ended_) return;  // the model may be gone
  for (const engine::RequestId id : ids_) prompt_.model->scheduler->cancel(id);
}

void Generation::on_prefill(std::uint32_t choice, std::uint32_t done, std::uint32_t total) {
  if (!std::exchange(started_, true)) {
    sink_->on_start(static_cast<std::uint32_t>(prompt_.tokens.size()));
  }
  if (choice == 0) sink_->on_prefill(done, total);
}

std::span<const text::ReplyPart> Generation::split(std::uint32_t choice, std::string_view text,
                                                   bool ends) {
  parts_.clear();
  if (prompt_.parsers.empty()) {
    if (!text.empty()) parts_.push_back({text::ReplyPart::Kind::content, std::string(text), 0});
  } else {
    if (!text.empty()) prompt_.parsers[choice]->push(text, parts_);
    if (ends) prompt_.parsers[choice]->finish(parts_);
  }
  for (const text::ReplyPart& part : parts_) {
    if (part.kind == text::ReplyPart::Kind::tool_begin) called_[choice] = true;
  }
  return parts_;
}

void Generation::on_token(std::uint32_t choice, const engine::TokenEvent& event) {
  if (!std::exchange(started_, true)) {
    sink_->on_start(static_cast<std::uint32_t>(prompt_.tokens.size()));
  }
  sink_->hear_token(choice, event);
  const std::size_t shown =
      std::min<std::size_t>(event.logprobs.size(), prompt_.options.top_logprobs);
  const TokenLogprobs logprobs{event.chosen, event.logprobs.first(shown)};
  const bool heard = sink_->on_token(choice, split(choice, event.text, false),
                                     prompt_.options.logprobs ? &logprobs : nullptr);
  if (!heard) cancel();
}

void Generation::on_end(std::uint32_t choice, const engine::RequestEnd& end) {
  if (!std::exchange(started_, true)) {
    sink_->on_start(static_cast<std::uint32_t>(prompt_.tokens.size()));
  }
  sink_->hear_end(choice, end);
  const auto parts = split(choice, end.text, true);
  if (!parts.empty()) sink_->on_token(choice, parts, nullptr);
  ChoiceEnd ended{end.finish, called_[choice], end.stop_string, nullptr};
  ApiError error;
  if (end.error) {
    error = api_error(*end.error);
    ended.error = &error;
  }
  usage_.prompt_tokens = end.prompt_tokens;
  usage_.new_tokens += end.new_tokens;
  if (choice == 0) {
    usage_.cached_tokens = end.reused_tokens;
    usage_.queue_seconds = end.queue_seconds;
    usage_.prefill_seconds = end.prefill_seconds;
    usage_.decode_seconds = end.decode_seconds;
  }
  metrics_.count_answer(end);
  note_outcome(*prompt_.model, end.error ? &*end.error : nullptr);
  if (log_ != nullptr) log_->add(prompt_.model->id, end);
  sink_->on_choice_end(choice, ended);
  if (--open_ > 0) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  sink_->on_end(usage_);
}

ApiStatus check_prompt(std::span<const text::TokenId> tokens, std::uint32_t context) {
  if (tokens.empty()) return refuse(400, "the prompt is empty", "prompt", "invalid_prompt");
  if (tokens.size() < context) return {};
  ApiError error{400,
                 fmt::format("context length exceeded: the prompt of {} tokens exceeds the "
                             "available context size of {} tokens",
                             tokens.size(), context),
                 "messages", "context_length_exceeded"};
  error.prompt_tokens = static_cast<std::uint32_t>(tokens.size());
  error.context = context;
  return std::unexpected(std::move(error));
}

}  // namespace

ApiStatus generate(Prompt prompt, std::shared_ptr<Sink> sink, const Call& call, Metrics& metrics) {
  const std::uint32_t context = prompt.model->context();
  const bool must_fit = prompt.model->overflow == engine::Overflow::error;
  const std::uint32_t most = must_fit ? context : UINT32_MAX;
  ORRERY_TRY_VOID(check_prompt(prompt.tokens, most));
  for (const auto& tokens : prompt.more) ORRERY_TRY_VOID(check_prompt(tokens, most));
  auto generation =
      std::make_shared<Generation>(std::move(prompt), std::move(sink), call.log, metrics);
  call.response->on_gone([weak = std::weak_ptr(generation)] {
    if (const auto alive = weak.lock()) alive->cancel();
  });
  return generation->submit();
}

}  // namespace orrery::server
