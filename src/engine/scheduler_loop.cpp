#include "engine/scheduler_loop.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "plan/plan.hpp"

namespace orrery::engine {
namespace {

// Seconds of prompts for a second of decode: running streams keep 1 / 1.6 of their pace, less what
// their steps lose to caches that prompts have emptied.
constexpr double kPromptShare = 0.6;
// What prompts did not need they may have later: so many seconds.
constexpr double kMostSaved = 0.25;
constexpr double kOlder = 0.98;  // weight of what came before, in recent decode: some 50 steps

}  // namespace

Task::Task(RequestId task_id, Request asked, std::shared_ptr<RequestEvents> sees,
           const text::Tokenizer& tokenizer, double now)
    : id(task_id),
      request(std::move(asked)),
      events(std::move(sees)),
      cancelled(std::make_shared<std::atomic<bool>>(false)),
      list(std::move(request.prompt)),
      answer(tokenizer, {request.max_tokens, std::move(request.stop), request.ignore_end,
                         request.constraint.get(), std::move(request.shown)}),
      submitted(now) {
  end.prompt_tokens = static_cast<std::uint32_t>(list.size());
}

std::uint32_t Task::missing() const {
  return static_cast<std::uint32_t>(list.size() - session->held().size());
}

SchedulerLoop::SchedulerLoop(Writer writer, std::uint32_t running, Clock clock,
                             std::function<void(RequestId)> ended)
    : writer_(std::move(writer)),
      most_active_(running),
      clock_(std::move(clock)),
      ended_(std::move(ended)),
      cache_(writer_.executor),
      scratch_(std::make_shared<Candidates>(static_cast<std::size_t>(writer_.vocab))),
      decode_costs_(writer_.executor->decode_plan()),
      prefill_costs_(writer_.executor->prefill_plan()) {
  rows_.reserve(running);
  sessions_.reserve(running);
  ids_.reserve(running);
  chosen_.reserve(running);
}

void SchedulerLoop::tick() {
  end_cancelled();
  admit();
  if (active_.size() + waiting_.size() > 1) crowded_at_ = clock_();
  const double start = clock_();
  const std::uint64_t batches = stats_.decode_ticks, slices = stats_.prefill_slices;
  decode();
  prefill();
  if (stats_.prefill_slices > slices) {
    stats_.prompt_steps.add(clock_() - start);
  } else if (stats_.decode_ticks > batches) {
    stats_.decode_steps.add(clock_() - start);
  }
}

// Before its tokens are delivered: that may end sequences.
void SchedulerLoop::count_batch() {
  const auto n = static_cast<std::uint32_t>(rows_.size());
  plan::StepCost cost = decode_costs_.linear({.sequences = n, .outputs = n});
  for (const Task* task : rows_) {
    const auto held = static_cast<std::uint32_t>(task->session->held().size());
    const plan::StepCost own = decode_costs_.attention({.position = held - 1});
    cost.bytes += own.bytes;
    cost.operations += own.operations;
  }
  stats_.read_bytes += cost.bytes;
  stats_.operations += cost.operations;
  stats_.recent_decode_bytes = kOlder * stats_.recent_decode_bytes + cost.bytes;
}

void SchedulerLoop::count_slice(const Task& task, std::uint32_t tokens, bool is_last) {
  const plan::RunCosts& costs =
      writer_.executor->prefers_decode(tokens) ? decode_costs_ : prefill_costs_;
  const auto held = static_cast<std::uint32_t>(task.session->held().size());
  const plan::Work work{.tokens = tokens, .outputs = is_last ? 1U : 0U, .position = held - tokens};
  for (const plan::StepCost& cost : {costs.linear(work), costs.attention(work)}) {
    stats_.read_bytes += cost.bytes;
    stats_.operations += cost.operations;
  }
}

// Those of the last token longest ago, where there are more than a batch takes.
void SchedulerLoop::gather_rows() {
  rows_.clear();
  for (const auto& task : active_) {
    if (task->decodes()) rows_.push_back(task.get());
  }
  const std::size_t most =
      std::min<std::size_t>(writer_.executor->max_decode_rows(), kMostBatchRows);
  if (rows_.size() > most) {
    std::ranges::partial_sort(
        rows_, rows_.begin() + static_cast<std::ptrdiff_t>(most), {},
        [](const Task* task) { return std::pair(task->decoded_at, task->id); });
    rows_.resize(most);
  }
  sessions_.clear();
  ids_.clear();
  for (Task* task : rows_) {
    sessions_.push_back(task->session);
    ids_.push_back(task->list.back());
  }
}

// A token for each row; with fewer rows where memory is short. False when there is none.
bool SchedulerLoop::run_rows() {
  for (gather_rows(); !rows_.empty(); gather_rows()) {
    Status ran;
    {
      const auto turn = writer_.executor->turn();
      ran = decode_batch(sessions_, ids_);
      chosen_.clear();
      for (std::size_t i = 0; ran && i < rows_.size(); ++i) {
        Task& task = *rows_[i];
        chosen_.push_back(task.answer.choose(*task.sampler, writer_.executor->logits(i)));
      }
    }
    if (ran) return true;
    if (ran.error().kind == "E_MEMORY") {
      make_room(*rows_.front(), ran.error());
      continue;
    }
    for (Task* task : rows_) end(*task, ran.error());
  }
  return false;
}

void SchedulerLoop::decode() {
  const double start = clock_();
  if (!run_rows()) return;
  count_batch();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows_[i]->decoded_at = ++decoded_rows_;
    deliver(*rows_[i], chosen_[i]);
  }
  const double seconds = clock_() - start;
  ++stats_.decode_ticks;
  stats_.decode_seconds += seconds;
  owed_ = std::max(owed_ - kPromptShare * seconds, -kMostSaved);
  stats_.recent_decode_seconds = kOlder * stats_.recent_decode_seconds + seconds;
}

void SchedulerLoop::deliver(Task& task, const Result<text::TokenId>& token) {
  if (!token) return end(task, token.error());
  const Result<bool> is_part = task.answer.take(*task.sampler, *token);
  if (!is_part) return end(task, is_part.error());
  if (!task.first_token) task.first_token = clock_();
  if (*is_part) {
    task.list.push_back(*token);
    ++task.end.new_tokens;
    ++stats_.new_tokens;
    task.events->on_token(
        {*token, task.answer.text(), task.sampler->chosen_logprob(), task.sampler->logprobs()});
  }
  if (task.answer.finish()) return end(task, *task.answer.finish());
  const std::uint32_t context = writer_.executor->context();
  if (task.list.size() <= context) return;
  const bool shifts = task.request.overflow == Overflow::shift && task.request.keep < context;
  if (!shifts && task.request.overflow != Overflow::roll) return end(task, FinishReason::context);
  shift(task);
}

// The list is too long: a part of it goes; what comes behind moves up or is computed again.
void SchedulerLoop::shift(Task& task) {
  EvaluateOptions options;
  options.overflow = task.request.overflow;
  options.keep = task.request.keep;
  const Dropped dropped = dropped_of(task.list.size(), *writer_.executor, options);
  const auto kept = task.list.begin() + dropped.first;
  task.list.erase(kept, kept + static_cast<std::ptrdiff_t>(dropped.count));
  if (task.session == nullptr) return;
  const auto turn = writer_.executor->turn();
  const bool can_roll = options.overflow == Overflow::roll &&
                        dropped.first + dropped.count <= task.session->held().size();
  if (can_roll && task.session->roll(dropped)) return;
  task.session->rewind(task.list);
}

}  // namespace orrery::engine
