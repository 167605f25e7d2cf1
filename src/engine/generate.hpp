// The loop from a prompt to text: evaluate, sample, give out whole characters, stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/answer.hpp"
#include "engine/sampler.hpp"
#include "engine/session.hpp"
#include "text/tokenizer.hpp"

namespace orrery::engine {

struct GenerateOptions {
  std::uint32_t max_tokens = 0;  // 0: to the end of the turn or a full context
  std::vector<std::string> stop;
  Overflow overflow = Overflow::error;
  std::uint32_t keep = 0;                  // see EvaluateOptions
  bool ignore_end = false;                 // goes on after end-of-generation tokens
  text::Constraint* constraint = nullptr;  // of a text that starts; ends as Answer says
  const std::atomic<bool>* cancel = nullptr;
  // Whole characters, past any stop string. False ends the generation.
  std::function<bool(std::string_view)> on_text;
  // Every new token before its text, with the sampler that chose it (logprobs).
  std::function<void(text::TokenId, const Sampler&)> on_token;
  std::function<void(std::uint32_t, std::uint32_t)> prefill_progress;  // tokens done, to do
};

struct Generation {
  std::vector<text::TokenId> tokens;  // new ones, without the one that ended the turn
  FinishReason finish = FinishReason::end_of_turn;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t reused_tokens = 0;  // of the prompt, found in the pages
  double prefill_seconds = 0;
  double decode_seconds = 0;       // from the first new token on
  double first_token_seconds = 0;  // from the call to the first new token
};

// The errors of Session::evaluate (but a cancelled one is a FinishReason) and Answer. The sampler's
// history becomes the prompt. Takes the executor's turn for each step.
Result<Generation> generate(Session& session, const text::Tokenizer& tokenizer, Sampler& sampler,
                            std::span<const text::TokenId> prompt, const GenerateOptions& options);

}  // namespace orrery::engine
