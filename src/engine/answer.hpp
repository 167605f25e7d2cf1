// What becomes of the tokens of one answer: chosen among those that are allowed, turned into whole
// characters past every stop string, ended for one of several reasons.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/sampler.hpp"
#include "engine/stop_strings.hpp"
#include "text/constraint.hpp"
#include "text/tokenizer.hpp"

namespace orrery::engine {

enum class FinishReason : std::uint8_t {
  end_of_turn,  // the model ended it, or the constraint
  stop_string,
  length,     // max_tokens
  context,    // full, and overflow is an error
  cancelled,  // by the flag or the callback
};
// "stop", "stop_string", "length", "context", "cancelled".
std::string_view finish_name(FinishReason reason);

struct AnswerOptions {
  std::uint32_t max_tokens = 0;  // 0: no limit
  std::vector<std::string> stop;
  bool ignore_end = false;                 // goes on after end-of-generation tokens
  text::Constraint* constraint = nullptr;  // borrowed; null: any text
  // Special tokens (ascending) whose texts are part of the answer: text::special_marks().
  std::vector<text::TokenId> shown = {};
};

class Answer {
 public:
  // Borrows the tokenizer.
  Answer(const text::Tokenizer& tokenizer, AnswerOptions options);

  // A token from a row of logits. E_GRAMMAR at a dead end of the constraint, E_NAN.
  Result<text::TokenId> choose(Sampler& sampler, std::span<const float> logits);
  // Takes a chosen token; false when it ended the turn and is no part of the answer. E_GRAMMAR when
  // the constraint refuses it.
  Result<bool> take(Sampler& sampler, text::TokenId token);

  // What the last take() let out; empty when it was held back.
  std::string_view text() const { return out_; }
  // What is still held back, when the text ends by itself.
  std::string_view rest();
  std::uint32_t n_tokens() const { return n_tokens_; }
  std::string_view stop_string() const { return stop_.found_string(); }

  // Absent as long as the answer goes on.
  std::optional<FinishReason> finish() const { return finish_; }
  void end(FinishReason reason) { finish_ = reason; }

 private:
  // Whether the text so far has opened a Markdown code fence and not closed it.
  class CodeFence {
   public:
    void push(std::string_view text);
    bool open() const { return open_; }

   private:
    int ticks_ = 0;
    bool open_ = false;
  };

  bool ends_turn(text::TokenId token) const;
  void add_text(Sampler& sampler, std::string_view piece);

  const text::Tokenizer& tokenizer_;
  std::uint32_t max_tokens_;
  bool ignore_end_;
  text::Constraint* constraint_;
  std::vector<text::TokenId> shown_;
  StopStrings stop_;
  text::Utf8Stream utf8_;
  CodeFence fence_;
  std::string out_;
  std::uint32_t n_tokens_ = 0;
  std::optional<FinishReason> finish_;
};

}  // namespace orrery::engine
