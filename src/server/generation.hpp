// One request for text, whatever its dialect: n answers to one prompt. The dialect's sink gets what
// the model writes, split into content, reasoning and calls.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/scheduler.hpp"
#include "server/app.hpp"
#include "server/sampling.hpp"
#include "text/reply.hpp"

namespace orrery::server {

class Metrics;

struct Prompt {
  // The call's lease keeps it in memory, and sinks hold the call: neither this nor a sink owns the
  // model (the scheduler's thread must not be the one that lets go of it last).
  ServedModel* model = nullptr;
  std::vector<text::TokenId> tokens;
  GenerationOptions options;
  std::string domain;  // see engine::Request
  // One for each answer, or empty: everything is content.
  std::vector<std::unique_ptr<text::ReplyParser>> parsers;
  std::shared_ptr<const text::ConstraintSource> constraint;  // null: any text
  std::vector<text::TokenId> shown = {};                     // see engine::Request
  // Of the answers from the second on, n - 1 of them; empty: all answers are to `tokens`.
  std::vector<std::vector<text::TokenId>> more = {};
};

struct TokenLogprobs {
  engine::TokenLogprob chosen;
  std::span<const engine::TokenLogprob> best;
};

struct ChoiceEnd {
  engine::FinishReason finish = engine::FinishReason::end_of_turn;
  bool called_tools = false;
  std::string stop_string;
  const ApiError* error = nullptr;  // instead of a finish reason
};

// By max_tokens or a full context.
inline bool is_cut_off(const ChoiceEnd& end) {
  return end.finish == engine::FinishReason::length || end.finish == engine::FinishReason::context;
}

struct Usage {
  std::uint32_t prompt_tokens = 0, cached_tokens = 0;
  std::uint32_t new_tokens = 0;                                       // of all answers
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;  // of the first answer
};

// Called on the scheduler's thread, after attach().
class Sink {
 public:
  virtual ~Sink() = default;
  // Before any of the others: the number of tokens of the prompt.
  virtual void on_start(std::uint32_t /*prompt_tokens*/) {}
  virtual void on_prefill(std::uint32_t /*done*/, std::uint32_t /*total*/) {}
  // `parts` is empty where the token's text is held back; `logprobs` null where none were asked.
  // False: nobody listens any more.
  virtual bool on_token(std::uint32_t choice, std::span<const text::ReplyPart> parts,
                        const TokenLogprobs* logprobs) = 0;
  virtual void on_choice_end(std::uint32_t choice, const ChoiceEnd& end) = 0;
  // What the engine says, before on_token() and on_choice_end() say what is made of it.
  virtual void hear_token(std::uint32_t /*choice*/, const engine::TokenEvent& /*event*/) {}
  virtual void hear_end(std::uint32_t /*choice*/, const engine::RequestEnd& /*end*/) {}
  // All answers have ended.
  virtual void on_end(const Usage& usage) = 0;
};

// Submits the answers and ties them to the client of the call: they are cancelled when it goes
// away. A stream begins only once all are accepted; until then a refusal is a plain reply.
ApiStatus generate(Prompt prompt, std::shared_ptr<Sink> sink, const Call& call, Metrics& metrics);

}  // namespace orrery::server
