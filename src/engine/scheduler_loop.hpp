// The scheduler without its thread and its locks: who runs in a tick, and what becomes of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "engine/answer.hpp"
#include "engine/prefill_pace.hpp"
#include "engine/prefix_cache.hpp"
#include "engine/sampler.hpp"
#include "engine/scheduler.hpp"
#include "plan/run_costs.hpp"

namespace orrery::engine {

// What a scheduler needs of a model. The executor keeps the tokenizer alive.
struct Writer {
  std::shared_ptr<Executor> executor;
  const text::Tokenizer* tokenizer = nullptr;
  std::int32_t vocab = 0;  // tokens that a sampler chooses among
};

// The errors of Scheduler::submit that the request alone decides.
Status check_request(const Request& request, const Writer& writer);
// As Scheduler::start.
Result<std::unique_ptr<Scheduler>> start_scheduler(Writer writer, const SchedulerOptions& options);

// A request on its way.
struct Task {
  Task(RequestId id, Request request, std::shared_ptr<RequestEvents> events,
       const text::Tokenizer& tokenizer, double now);

  RequestId id;
  Request request;  // without the prompt
  std::shared_ptr<RequestEvents> events;
  std::shared_ptr<std::atomic<bool>> cancelled;
  // Prompt and answer, but for what shifts have dropped. The session's tokens are a prefix of it;
  // where one is missing, decode goes on.
  std::vector<text::TokenId> list;
  Answer answer;
  std::optional<Sampler> sampler;                     // from the first place on
  Session* session = nullptr;                         // while it has a place
  std::uint32_t prefill_total = 0, prefill_done = 0;  // tokens, as told to `events`
  std::uint64_t decoded_at = 0;  // row, counted over all batches, of its last token
  std::uint64_t sliced_at = 0;   // slice, of all prompts, that was its last one
  // It waits for another one's prefill to share so many tokens.
  RequestId leader = 0;
  std::uint32_t leader_tokens = 0;
  double submitted;
  std::optional<double> started, first_token;
  RequestEnd end;

  std::uint32_t missing() const;
  bool decodes() const { return missing() == 1; }
};

class SchedulerLoop {
 public:
  // Seconds; tests have their own.
  using Clock = std::function<double()>;
  // `ended` is called before the events of the end.
  SchedulerLoop(Writer writer, std::uint32_t running, Clock clock,
                std::function<void(RequestId)> ended);

  void add(std::unique_ptr<Task> task);
  // One batch of decode, then slices of prompts for as long as running streams can spare.
  void tick();
  bool has_work() const { return !active_.empty() || !waiting_.empty(); }
  void end_all(const Error& error);
  // As Scheduler says, and PrefixCache::set_aside.
  std::vector<SlotState> slots(std::string_view owner) const;
  Result<Session*> set_aside(std::uint32_t slot, std::string_view owner) {
    return cache_.set_aside(slot, owner);
  }
  void put_back(const Session* session, std::string_view owner) { cache_.put_back(session, owner); }
  // `requests` and `refused` are not known here.
  SchedulerStats stats() const;

 private:
  using Tasks = std::vector<std::unique_ptr<Task>>;
  using Outcome = std::variant<FinishReason, Error>;

  // scheduler_places.cpp: who has a place
  void end_cancelled();
  void admit();
  bool waits_for_leader(Task& task);
  Status prepare(Task& task);
  Status adapt(Session& session, const Task& task);
  void give_place(std::size_t index, Session* session);
  bool make_room(const Task& needy, const Error& error);
  void preempt(Task& task);
  std::unique_ptr<Task> remove(Tasks& tasks, const Task& task);
  void end(Task& task, Outcome outcome);

  void count_batch();
  void count_slice(const Task& task, std::uint32_t tokens, bool is_last);
  void decode();
  void gather_rows();
  bool run_rows();
  void deliver(Task& task, const Result<text::TokenId>& token);
  void shift(Task& task);

  // scheduler_prefill.cpp: what prompts get of the time
  struct Turn {
    Task* task = nullptr;
    bool passes = false;  // longer ones, that wait
  };
  void prefill();
  bool is_short(const Task& task) const;
  Turn next_prompt() const;
  double seconds_of(const Task& task, std::uint32_t tokens) const;
  double slice_seconds(const Task& task) const;
  std::uint32_t slice_of(const Task& task, double spent) const;
  bool run_slice(Task& task, std::uint32_t tokens);
  void tell_progress(Task& task);

  Writer writer_;
  std::uint32_t most_active_;
  Clock clock_;
  std::function<void(RequestId)> ended_;
  PrefixCache cache_;
  std::shared_ptr<Candidates> scratch_;
  plan::RunCosts decode_costs_, prefill_costs_;
  Tasks waiting_;  // by id
  Tasks active_;   // in the order of their places
  // After a preemption nobody gets a place before one is free: there would be no memory for it.
  bool is_full_ = false;

  std::uint64_t decoded_rows_ = 0, slices_ = 0, long_slices_ = 0;
  PrefillPace pace_;
  double owed_ = 0;    // seconds that prompts have taken from running streams
  double passed_ = 0;  // seconds that shorter prompts have had before those that wait longer
  double crowded_at_ = -std::numeric_limits<double>::infinity();  // two requests were there
  std::vector<Task*> rows_;                                       // of this tick's batch
  std::vector<Session*> sessions_;
  std::vector<text::TokenId> ids_;
  std::vector<Result<text::TokenId>> chosen_;
  SchedulerStats stats_;
};

}  // namespace orrery::engine
