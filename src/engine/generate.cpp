#include "engine/generate.hpp"

#include <mutex>
#include <utility>

#include "base/clock.hpp"

namespace orrery::engine {
namespace {

class Generator {
 public:
  Generator(Session& session, const text::Tokenizer& tokenizer, Sampler& sampler,
            const GenerateOptions& options)
      : session_(session),
        sampler_(sampler),
        options_(options),
        answer_(tokenizer,
                {options.max_tokens, options.stop, options.ignore_end, options.constraint, {}}),
        start_(now_seconds()) {
    evaluate_.overflow = options.overflow;
    evaluate_.keep = options.keep;
    evaluate_.cancel = options.cancel;
  }

  // Files that were written to give a wrong answer without a fault: looked at before and after.
  Result<Generation> run(std::span<const text::TokenId> prompt) {
    ORRERY_TRY_VOID(session_.executor().check_files());
    result_.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
    tokens_.assign(prompt.begin(), prompt.end());
    tokens_.reserve(prompt.size() + session_.executor().context());
    sampler_.set_history(prompt);
    while (!answer_.finish()) {
      ORRERY_TRY_VOID(step());
    }
    ORRERY_TRY_VOID(session_.executor().check_files());
    if (answer_.finish() != FinishReason::stop_string &&
        answer_.finish() != FinishReason::cancelled) {
      give_out(answer_.rest());
    }
    result_.finish = *answer_.finish();
    if (!result_.tokens.empty()) {
      result_.decode_seconds = now_seconds() - start_ - result_.first_token_seconds;
    }
    return std::move(result_);
  }

 private:
  bool cancelled() const {
    return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed);
  }

  Status step() {
    if (cancelled()) {
      answer_.end(FinishReason::cancelled);
      return {};
    }
    if (tokens_.size() > session_.executor().context() && !result_.tokens.empty() &&
        options_.overflow == Overflow::error) {
      answer_.end(FinishReason::context);
      return {};
    }
    const bool is_first = !has_token_;
    text::TokenId token = text::kNoToken;
    {
      std::unique_lock turn = session_.executor().turn();
      // After every slice but the last: others get theirs.
      evaluate_.progress = [this, &turn](std::uint32_t done, std::uint32_t to_do) {
        if (options_.prefill_progress) options_.prefill_progress(done, to_do);
        turn.unlock();
        turn.lock();
      };
      const auto evaluation = session_.evaluate(tokens_, evaluate_);
      if (!evaluation) {
        if (evaluation.error().kind != "E_CANCELLED") return std::unexpected(evaluation.error());
        answer_.end(FinishReason::cancelled);
        return {};
      }
      if (is_first) {
        result_.reused_tokens = evaluation->reused;
        result_.prefill_seconds = now_seconds() - start_;
      }
      ORRERY_TRY(token, answer_.choose(sampler_, evaluation->logits));
    }
    has_token_ = true;
    if (is_first) result_.first_token_seconds = now_seconds() - start_;
    return take(token);
  }

  Status take(text::TokenId token) {
    ORRERY_TRY(const bool is_part, answer_.take(sampler_, token));
    if (!is_part) return {};
    tokens_.push_back(token);
    result_.tokens.push_back(token);
    if (options_.on_token) options_.on_token(token, sampler_);
    give_out(answer_.text());
    return {};
  }

  void give_out(std::string_view text) {
    if (text.empty() || !options_.on_text || options_.on_text(text)) return;
    if (answer_.finish() != FinishReason::stop_string) answer_.end(FinishReason::cancelled);
  }

  Session& session_;
  Sampler& sampler_;
  const GenerateOptions& options_;
  EvaluateOptions evaluate_;
  Answer answer_;
  std::vector<text::TokenId> tokens_;
  Generation result_;
  double start_;
  bool has_token_ = false;
};

}  // namespace

Result<Generation> generate(Session& session, const text::Tokenizer& tokenizer, Sampler& sampler,
                            std::span<const text::TokenId> prompt, const GenerateOptions& options) {
  return Generator(session, tokenizer, sampler, options).run(prompt);
}

}  // namespace orrery::engine
