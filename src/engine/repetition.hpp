// What the sampler remembers of prompt and answer, and everything that works against repetition:
// penalties, DRY and the repetition-driven temperature.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampler_params.hpp"

namespace orrery::engine {

class Repetition {
 public:
  // `context` bounds what "the whole context" means, in tokens. All memory is taken here.
  Repetition(const SamplerParams& params, std::int32_t vocab, std::uint32_t context);

  void reset();
  void accept(text::TokenId token);

  // Repeat, frequency and presence penalties on a row of logits (vocab).
  void penalize(std::span<float> row);
  // DRY ("don't repeat yourself"): a token that would lengthen a repeated run of L tokens loses
  // multiplier * base^(L - allowed_length).
  void dry(std::span<float> row);

  // The temperature to use now. r is a moving average (decay 0.9) of "the last three tokens have
  // occurred before within the last 256"; above r0 = 0.3 it adds up to repetition_temperature by
  // a smooth step. Exactly the base while r <= r0, and always for a base of 0.
  float temperature(float base) const;
  // Spans that repeat by nature (code fences, constrained output) neither raise r nor feel it.
  void set_exempt(bool exempt) { exempt_ = exempt; }

  // Tokens back from the last one: 0 is the last; i < length().
  text::TokenId back(std::size_t i) const;
  std::size_t length() const { return length_; }

 private:
  bool continues_repeat() const;
  std::size_t run_limit(std::size_t n) const;

  float repeat_penalty_, frequency_penalty_, presence_penalty_;
  float dry_multiplier_, dry_base_;
  std::size_t dry_allowed_;
  float rise_;
  std::size_t penalty_window_ = 0, dry_window_ = 0;  // tokens
  bool exempt_ = false;
  float repeating_ = 0;                 // r
  std::vector<text::TokenId> history_;  // ring
  std::size_t next_ = 0, length_ = 0;
  std::vector<std::int32_t> counts_;      // (vocab): occurrences in the penalty window
  std::vector<std::uint8_t> is_breaker_;  // (vocab)
  std::vector<std::int32_t> runs_;        // (dry window): Z values of the reversed history
  std::vector<std::int32_t> longest_;     // (vocab): the longest run that a token would lengthen
};

}  // namespace orrery::engine
