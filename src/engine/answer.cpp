#include "engine/answer.hpp"

#include <algorithm>
#include <utility>

namespace orrery::engine {

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

void Answer::CodeFence::push(std::string_view text) {
  for (const char c : text) {
    ticks_ = c == '`' ? ticks_ + 1 : 0;
    if (ticks_ == 3) open_ = !open_;
  }
}

Answer::Answer(const text::Tokenizer& tokenizer, AnswerOptions options)
    : tokenizer_(tokenizer),
      max_tokens_(options.max_tokens),
      ignore_end_(options.ignore_end),
      constraint_(options.constraint),
      shown_(std::move(options.shown)),
      stop_(std::move(options.stop)) {}

Result<text::TokenId> Answer::choose(Sampler& sampler, std::span<const float> logits) {
  if (constraint_ == nullptr) return sampler.sample(sampler.row(logits));
  sampler.set_exempt(true);
  return sampler.sample(sampler.row(logits), constraint_->allowed());
}

// A constraint allows the end only where the text may end: there is nothing to go on with.
bool Answer::ends_turn(text::TokenId token) const {
  const auto& ends = tokenizer_.special().end_of_generation;
  return (!ignore_end_ || constraint_ != nullptr) &&
         std::find(ends.begin(), ends.end(), token) != ends.end();
}

Result<bool> Answer::take(Sampler& sampler, text::TokenId token) {
  out_.clear();
  if (constraint_ != nullptr) ORRERY_TRY_VOID(constraint_->accept(token));
  if (ends_turn(token)) {
    end(FinishReason::end_of_turn);
    return false;
  }
  sampler.accept(token);
  ++n_tokens_;
  if (!tokenizer_.is_special(token)) {
    add_text(sampler, tokenizer_.piece(token));
  } else if (std::binary_search(shown_.begin(), shown_.end(), token)) {
    add_text(sampler, tokenizer_.token_text(token));
  }
  if (stop_.found()) {
    end(FinishReason::stop_string);
  } else if (constraint_ != nullptr && constraint_->is_finished()) {
    end(FinishReason::end_of_turn);
  } else if (max_tokens_ > 0 && n_tokens_ >= max_tokens_) {
    end(FinishReason::length);
  }
  return true;
}

void Answer::add_text(Sampler& sampler, std::string_view piece) {
  fence_.push(piece);
  sampler.set_exempt(fence_.open());
  stop_.push(utf8_.push(piece), out_);
}

std::string_view Answer::rest() {
  out_.clear();
  stop_.push(utf8_.finish(), out_);
  stop_.finish(out_);
  return out_;
}

}  // namespace orrery::engine
