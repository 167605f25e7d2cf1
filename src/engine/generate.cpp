#include "engine/generate.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "engine/stop_strings.hpp"

namespace orrery::engine {
namespace {

// Whether the text so far has opened a Markdown code fence and not closed it.
class CodeFence {
 public:
  void push(std::string_view text) {
    for (const char c : text) {
      ticks_ = c == '`' ? ticks_ + 1 : 0;
      if (ticks_ == 3) open_ = !open_;
    }
  }
  bool open() const { return open_; }

 private:
  int ticks_ = 0;
  bool open_ = false;
};

class Generator {
 public:
  Generator(Session& session, const text::Tokenizer& tokenizer, Sampler& sampler,
            const GenerateOptions& options)
      : session_(session),
        tokenizer_(tokenizer),
        sampler_(sampler),
        options_(options),
        stop_(options.stop),
        start_(now_seconds()) {
    evaluate_.overflow = options.overflow;
    evaluate_.keep = options.keep;
    evaluate_.cancel = options.cancel;
    evaluate_.progress = options.prefill_progress;
  }

  // Files that were written to give a wrong answer without a fault: looked at before and after.
  Result<Generation> run(std::span<const text::TokenId> prompt) {
    ORRERY_TRY_VOID(session_.executor().check_files());
    result_.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
    tokens_.assign(prompt.begin(), prompt.end());
    tokens_.reserve(prompt.size() + session_.executor().context());
    sampler_.set_history(prompt);
    while (!done_) {
      ORRERY_TRY_VOID(step());
    }
    ORRERY_TRY_VOID(session_.executor().check_files());
    if (result_.finish != FinishReason::stop_string && result_.finish != FinishReason::cancelled) {
      out_.clear();
      stop_.push(utf8_.finish(), out_);
      stop_.finish(out_);
      give_out();
    }
    if (!result_.tokens.empty()) {
      result_.decode_seconds = now_seconds() - start_ - result_.first_token_seconds;
    }
    return std::move(result_);
  }

 private:
  void finish(FinishReason reason) {
    result_.finish = reason;
    done_ = true;
  }

  bool cancelled() const {
    return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed);
  }

  Status step() {
    if (cancelled()) {
      finish(FinishReason::cancelled);
      return {};
    }
    if (tokens_.size() > session_.executor().context() && !result_.tokens.empty() &&
        options_.overflow == Overflow::error) {
      finish(FinishReason::context);
      return {};
    }
    const bool is_first = !has_token_;
    text::TokenId token = text::kNoToken;
    {
      const auto turn = session_.executor().turn();
      const auto evaluation = session_.evaluate(tokens_, evaluate_);
      if (!evaluation) {
        if (evaluation.error().kind != "E_CANCELLED") return std::unexpected(evaluation.error());
        finish(FinishReason::cancelled);
        return {};
      }
      if (is_first) {
        result_.reused_tokens = evaluation->reused;
        result_.prefill_seconds = now_seconds() - start_;
      }
      ORRERY_TRY(token, sampler_.sample(sampler_.row(evaluation->logits)));
    }
    has_token_ = true;
    if (is_first) result_.first_token_seconds = now_seconds() - start_;
    take(token);
    return {};
  }

  void take(text::TokenId token) {
    const auto& ends = tokenizer_.special().end_of_generation;
    if (!options_.ignore_end && std::find(ends.begin(), ends.end(), token) != ends.end()) {
      return finish(FinishReason::end_of_turn);
    }
    sampler_.accept(token);
    tokens_.push_back(token);
    result_.tokens.push_back(token);
    if (options_.on_token) options_.on_token(token, sampler_);
    if (!tokenizer_.is_special(token)) {
      const std::string_view piece = tokenizer_.piece(token);
      fence_.push(piece);
      sampler_.set_exempt(fence_.open());
      out_.clear();
      stop_.push(utf8_.push(piece), out_);
      give_out();
    }
    if (stop_.found()) return finish(FinishReason::stop_string);
    if (!done_ && options_.max_tokens > 0 && result_.tokens.size() >= options_.max_tokens) {
      finish(FinishReason::length);
    }
  }

  void give_out() {
    if (out_.empty() || !options_.on_text || options_.on_text(out_)) return;
    finish(FinishReason::cancelled);
  }

  Session& session_;
  const text::Tokenizer& tokenizer_;
  Sampler& sampler_;
  const GenerateOptions& options_;
  EvaluateOptions evaluate_;
  StopStrings stop_;
  text::Utf8Stream utf8_;
  CodeFence fence_;
  std::string out_;
  std::vector<text::TokenId> tokens_;
  Generation result_;
  double start_;
  bool has_token_ = false;
  bool done_ = false;
};

}  // namespace

std::string_view finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::end_of_turn:
      return "stop";
    case FinishReason::stop_string:
      return "stop_string";
    case FinishReason::length:
      return "length";
    case FinishReason::context:
      return "context";
    case FinishReason::cancelled:
      return "cancelled";
  }
  std::unreachable();
}

Result<Generation> generate(Session& session, const text::Tokenizer& tokenizer, Sampler& sampler,
                            std::span<const text::TokenId> prompt, const GenerateOptions& options) {
  return Generator(session, tokenizer, sampler, options).run(prompt);
}

}  // namespace orrery::engine
