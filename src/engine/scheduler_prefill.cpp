// What prompts get of the time: in which order, how much at once, and how much of it while streams
// run.
#include <algorithm>

#include "engine/scheduler_loop.hpp"

namespace orrery::engine {
namespace {

// A block of prompt tokens costs what a full one does (kernels/block_kernels.hpp), and the weights
// are unpacked once a slice: shorter ones pay more for a token than they spare those who wait.
constexpr std::uint32_t kBlock = 32, kLeastSlice = 64;
// Seconds of a slice: that long others wait for its end. Alone, that long a cancellation does.
constexpr double kSlice = 0.04, kLoneSlice = 0.25;
// Others come back at once for their next turn: who is alone is so for a while.
constexpr double kQuiet = 1;
// What prompts may owe to running streams before one begins that a slice computes whole, in slices;
// longer ones begin when nothing is owed.
constexpr double kMostOwed = 2;
// Seconds that a slice may have taken beyond what was expected, and streams get back.
constexpr double kMostStall = 1;
// Seconds that short prompts may have before one that has waited longer.
constexpr double kMostPassed = 0.25;

}  // namespace

double SchedulerLoop::seconds_of(const Task& task, std::uint32_t tokens) const {
  const auto depth = static_cast<std::uint32_t>(task.session->held().size());
  return std::max(tokens, kBlock) * pace_.token_seconds(depth);
}

// The time that a slice of it may take while others are there.
double SchedulerLoop::slice_seconds(const Task& task) const {
  const std::uint32_t least = std::min(kLeastSlice, writer_.executor->max_prefill_tokens());
  return std::max(kSlice, seconds_of(task, least));
}

// A slice computes all that is left.
bool SchedulerLoop::is_short(const Task& task) const {
  const std::uint32_t most = writer_.executor->max_prefill_tokens();
  return task.missing() <= std::min(kLeastSlice, most) ||
         (task.missing() <= most && seconds_of(task, task.missing()) <= kSlice);
}

// Short prompts in the order in which they came, as long as longer ones get as much of the time. Of
// those by turns the one with the least left and the one that has waited for a slice the longest:
// some are done soon, and all get on.
SchedulerLoop::Turn SchedulerLoop::next_prompt() const {
  Task* quick = nullptr;
  Task* shortest = nullptr;
  Task* waited = nullptr;
  for (const auto& task : active_) {
    if (task->decodes()) continue;
    if (is_short(*task)) {
      if (quick == nullptr) quick = task.get();
      continue;
    }
    if (shortest == nullptr || task->missing() < shortest->missing()) shortest = task.get();
    if (waited == nullptr || task->sliced_at < waited->sliced_at) waited = task.get();
  }
  if (shortest == nullptr) return {quick, false};
  if (quick != nullptr && passed_ < kMostPassed) return {quick, true};
  return {long_slices_ % 2 == 0 ? shortest : waited, false};
}

// Tokens of the prompt that may be computed now; 0: running streams come first. `spent`: seconds
// that prompts have had since their last step.
std::uint32_t SchedulerLoop::slice_of(const Task& task, double spent) const {
  const std::uint32_t most = std::min(task.missing(), writer_.executor->max_prefill_tokens());
  const std::uint32_t least = std::min(most, kLeastSlice);
  const double most_owed = is_short(task) ? kMostOwed * slice_seconds(task) : 0;
  if (!rows_.empty() && std::max(owed_, spent) > most_owed) return 0;
  const bool is_alone = active_.size() + waiting_.size() == 1 && clock_() - crowded_at_ >= kQuiet;
  const double token_seconds = seconds_of(task, kBlock) / kBlock;
  if (token_seconds == 0) return is_alone ? most : least;
  const double fits = std::min<double>((is_alone ? kLoneSlice : kSlice) / token_seconds, most);
  if (fits == most) return most;
  return std::max(static_cast<std::uint32_t>(fits) / kBlock * kBlock, least);
}

void SchedulerLoop::prefill() {
  if (rows_.empty()) owed_ = std::min(owed_, 0.0);
  for (double spent = 0;;) {
    const Turn turn = next_prompt();
    if (turn.task == nullptr) return;
    Task& task = *turn.task;
    const std::uint32_t tokens = slice_of(task, spent);
    if (tokens == 0) return;
    const auto depth = static_cast<std::uint32_t>(task.session->held().size());
    const double expected = seconds_of(task, tokens);
    if (!is_short(task)) ++long_slices_;
    const double start = clock_();
    const bool ran = run_slice(task, tokens);
    const double seconds = clock_() - start;
    stats_.prefill_seconds += seconds;
    if (ran && (tokens >= kBlock || expected == 0)) {
      pace_.measure(depth, seconds / std::max(tokens, kBlock));
    }
    passed_ = std::max(passed_ + (turn.passes ? seconds : -seconds), 0.0);
    if (rows_.empty()) return;  // a slice a tick: requests that come or go are seen
    // A machine that stood still for hours makes no prompt wait for as long.
    owed_ += std::min(seconds, expected + kMostStall);
    spent += seconds;
  }
}

// False when the task has lost its place.
bool SchedulerLoop::run_slice(Task& task, std::uint32_t tokens) {
  const auto slice =
      std::span<const text::TokenId>(task.list).subspan(task.session->held().size(), tokens);
  const bool is_last = task.missing() == tokens;
  Result<text::TokenId> chosen = text::kNoToken;
  for (;;) {
    Status ran;
    {
      const auto turn = writer_.executor->turn();
      ran = task.session->advance(slice, is_last);
      if (ran && is_last) chosen = task.answer.choose(*task.sampler, writer_.executor->logits(0));
    }
    if (ran) break;
    if (ran.error().kind != "E_MEMORY") {
      end(task, ran.error());
      return false;
    }
    if (!make_room(task, ran.error())) return false;
  }
  task.sliced_at = ++slices_;
  ++stats_.prefill_slices;
  count_slice(task, tokens, is_last);
  tell_progress(task);
  if (is_last) deliver(task, chosen);
  return true;
}

// What a preemption has thrown away is computed again in silence.
void SchedulerLoop::tell_progress(Task& task) {
  const std::uint32_t missing = std::min(task.missing(), task.prefill_total);
  const std::uint32_t done = task.prefill_total - missing;
  if (task.first_token || done <= task.prefill_done) return;
  task.prefill_done = done;
  task.events->on_prefill(done, task.prefill_total);
}

}  // namespace orrery::engine
