// Many requests on one model: each tick decodes every running sequence in one batch and spends a
// bounded time on waiting prompts, so that running streams keep their pace. Pages of finished
// requests stay for the next ones with the same prefix, as long as memory lasts.
//
// One thread, the scheduler's own, runs the model and calls the events; submit() and cancel() may
// be called from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/generate.hpp"
#include "engine/model.hpp"
#include "engine/sampler_params.hpp"
#include "text/constraint.hpp"
#include "text/tokenizer.hpp"

namespace orrery::engine {

struct Request {
  std::vector<text::TokenId> prompt;
  SamplerParams sampling;
  std::uint32_t max_tokens = 0;  // 0: to the end of the turn or a full context
  std::vector<std::string> stop;
  bool ignore_end = false;  // goes on after end-of-generation tokens
  Overflow overflow = Overflow::error;
  std::uint32_t keep = 0;  // see EvaluateOptions
  // Null: any text. Once it is finished the turn ends; a dead end is E_GRAMMAR. ignore_end does not
  // go on after an end that it allows.
  std::unique_ptr<text::Constraint> constraint;
  std::vector<text::TokenId> shown;  // see AnswerOptions: what a parser of replies has to see
  // Prefixes are shared between requests of one domain only (a shared cache tells others, by its
  // timing, what was asked). Without line breaks.
  std::string domain;
  // The sequence to go on with (Scheduler::slots), where it is idle and no other domain's.
  std::optional<std::uint32_t> slot;
  bool reuses = true;  // false: the whole prompt is computed, whatever pages are there
  // E_ADAPTER, as the end of the request, for one that is not loaded. Prefixes are shared between
  // requests with the same ones only.
  std::vector<AdapterUse> adapters;
};

struct TokenEvent {
  text::TokenId id = text::kNoToken;
  // Whole characters, past any stop string; may be empty, and then comes with a later token or
  // with the end.
  std::string_view text;
  TokenLogprob chosen;                     // valid where the request asked for logprobs
  std::span<const TokenLogprob> logprobs;  // n_logprobs best ones, best first
};

struct RequestEnd {
  FinishReason finish = FinishReason::end_of_turn;
  std::optional<Error> error;  // instead of a finish reason
  std::string text;            // what was still held back
  std::string stop_string;     // the one that ended it
  std::uint32_t prompt_tokens = 0;
  std::uint32_t reused_tokens = 0;  // of the prompt, found in the pages
  std::uint32_t new_tokens = 0;
  std::uint32_t held_tokens = 0;      // that its sequence keeps for others
  std::optional<std::uint32_t> slot;  // the sequence, if it got one
  double queue_seconds = 0;           // until it got a place
  double prefill_seconds = 0;         // from there to the first token
  double decode_seconds = 0;          // from there to the end
};

// Called on the scheduler's thread: returns at once. It may call cancel(), nothing else.
class RequestEvents {
 public:
  virtual ~RequestEvents() = default;
  // After a slice of the prompt: tokens computed so far, and to compute (without reused ones).
  virtual void on_prefill(std::uint32_t done, std::uint32_t total) = 0;
  virtual void on_token(const TokenEvent& event) = 0;
  virtual void on_end(const RequestEnd& end) = 0;  // once, the last call
};

using RequestId = std::uint64_t;

struct SchedulerOptions {
  // Requests at once, at most the model's sequences; above its decode rows they take turns.
  std::uint32_t running = 32;
  std::uint32_t queued = 256;  // that wait for a place; more are refused
};

// Counts of steps by what they took.
struct StepTimes {
  static constexpr std::array<double, 12> kBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                                     0.1,   0.2,   0.5,   1,    2,    5};
  std::array<std::uint64_t, kBounds.size() + 1> counts{};  // at most the bound; the last: above all
  double seconds = 0;                                      // of all

  void add(double taken) {
    ++counts[static_cast<std::size_t>(std::ranges::lower_bound(kBounds, taken) - kBounds.begin())];
    seconds += taken;
  }
};

struct SchedulerStats {
  std::uint32_t running = 0, queued = 0;
  std::uint32_t idle = 0;  // sequences that keep pages of finished requests
  std::uint64_t requests = 0, refused = 0, cancelled = 0, failed = 0;
  std::uint64_t preempted = 0;  // for want of memory; they are computed again
  std::uint64_t prompt_tokens = 0, reused_tokens = 0, new_tokens = 0;
  std::uint64_t decode_ticks = 0, prefill_slices = 0;
  double decode_seconds = 0, prefill_seconds = 0;  // of the engine's time
  StepTimes decode_steps, prompt_steps;            // ticks without and with tokens of prompts
  // What the runs must read (weights, keys and values) and do, as plan::StepCost counts.
  double read_bytes = 0, operations = 0;
  // Of decode's runs, older ones counting less and less.
  double recent_decode_bytes = 0, recent_decode_seconds = 0;
  std::uint64_t cache_bytes = 0, cache_budget_bytes = 0;
  std::uint64_t cache_pages = 0;  // in use, of all groups
};

// A sequence and what it holds. Of another domain's nothing is told but that it is busy.
struct SlotState {
  std::uint32_t id = 0;
  bool is_busy = false;
  std::uint32_t tokens = 0;  // that its pages hold
  // While a request runs on it.
  RequestId request = 0;
  std::uint32_t prompt_tokens = 0, new_tokens = 0, max_tokens = 0;
  SamplerParams sampling;
};

class Scheduler {
 public:
  // The model is opened with ModelOptions::max_sequences above `running`: the rest keep the pages
  // of finished requests. The scheduler holds on to the sequences that it opens. E_ENCODER for a
  // model that writes no texts, E_PARAM when `running` is 0.
  static Result<std::unique_ptr<Scheduler>> start(std::shared_ptr<const Model> model,
                                                  const SchedulerOptions& options);
  virtual ~Scheduler() = default;  // ends what runs with E_STOPPED

  // E_BUSY when the queue is full, E_STOPPED after drain(); E_TOKENS, E_CONTEXT and E_PARAM as
  // Session::evaluate and Sampler::create. After an error no event is called.
  virtual Result<RequestId> submit(Request request, std::shared_ptr<RequestEvents> events) = 0;
  // The request ends with FinishReason::cancelled within one step, also while it waits or its
  // prompt is computed. Unknown and finished ones are left alone.
  virtual void cancel(RequestId id) = 0;
  // Takes no more requests; those that are there run to their ends. Returns at once: stats() tells
  // when none runs and none is queued.
  virtual void drain() = 0;
  // The same, but those that are there end with E_STOPPED within one step.
  virtual void stop() = 0;
  virtual SchedulerStats stats() const = 0;

  // Sequences by number, those that were used so far. Waits for the end of a tick.
  virtual std::vector<SlotState> slots(const std::string& domain) = 0;
  // Sets an idle sequence aside and calls `work` with it on the caller's thread, beside the running
  // requests: to save, to restore or to clear it. What it holds afterwards is the domain's. Besides
  // the errors of `work`: E_SLOT for a number that is not there or another domain's, E_INUSE while
  // a request runs on it.
  virtual Status use_slot(std::uint32_t id, const std::string& domain,
                          const std::function<Status(Session&)>& work) = 0;
};

}  // namespace orrery::engine
