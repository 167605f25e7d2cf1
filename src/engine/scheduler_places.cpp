// Who has a place, and what happens when memory is short: idle pages go first, then the youngest
// request waits and is computed again later.
#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "engine/scheduler_loop.hpp"
#include "plan/plan.hpp"

namespace orrery::engine {

void SchedulerLoop::add(std::unique_ptr<Task> task) {
  const auto place = std::ranges::upper_bound(waiting_, task->id, {},
                                              [](const auto& waiting) { return waiting->id; });
  waiting_.insert(place, std::move(task));
}

std::unique_ptr<Task> SchedulerLoop::remove(Tasks& tasks, const Task& task) {
  const auto at = std::ranges::find_if(tasks, [&](const auto& t) { return t.get() == &task; });
  ORRERY_CHECK(at != tasks.end());
  std::unique_ptr<Task> owned = std::move(*at);
  tasks.erase(at);
  return owned;
}

void SchedulerLoop::end_cancelled() {
  for (Tasks* tasks : {&active_, &waiting_}) {
    for (std::size_t i = 0; i < tasks->size();) {
      Task& task = *(*tasks)[i];
      if (!task.cancelled->load(std::memory_order_relaxed)) {
        ++i;
        continue;
      }
      end(task, FinishReason::cancelled);
    }
  }
}

void SchedulerLoop::admit() {
  for (std::size_t i = 0; i < waiting_.size() && active_.size() < most_active_;) {
    if (is_full_ && !active_.empty()) return;
    Task& task = *waiting_[i];
    if (waits_for_leader(task)) {
      ++i;
      continue;
    }
    if (const Status ready = prepare(task); !ready) {
      end(task, ready.error());
      continue;
    }
    Session* const session =
        cache_.take(task.list, task.request.domain, {task.request.slot, task.request.reuses});
    if (session != nullptr) {
      if (const Status adapted = adapt(*session, task); !adapted) {
        cache_.give_back(session, false);
        end(task, adapted.error());
        continue;
      }
      give_place(i, session);
    } else if (active_.empty()) {
      end(task, Error{"E_SEQUENCES", "others use every sequence of the model; try again later"});
    } else {
      return;
    }
  }
}

// What the session holds stays if it was computed with the same ones: the domain has their names.
Status SchedulerLoop::adapt(Session& session, const Task& task) {
  const auto turn = writer_.executor->turn();
  return session.set_adapters(task.request.adapters);
}

// Requests with one prefix that come together: the first computes it for all.
bool SchedulerLoop::waits_for_leader(Task& task) {
  const auto leads = [&](const Task& other, std::uint32_t tokens) {
    return other.session->held().size() < tokens && !other.decodes();
  };
  if (task.leader != 0) {
    const auto leader =
        std::ranges::find_if(active_, [&](const auto& t) { return t->id == task.leader; });
    if (leader != active_.end() && leads(**leader, task.leader_tokens)) return true;
    task.leader = 0;
  }
  if (!task.request.reuses || task.list.size() > writer_.executor->context()) return false;
  std::optional<std::uint32_t> now;
  for (const auto& other : active_) {
    if (other->decodes() || other->request.domain != task.request.domain) continue;
    const std::uint32_t pages = common_prefix(task.list, other->list) / plan::kPageTokens;
    const std::uint32_t tokens = pages * plan::kPageTokens;
    if (!leads(*other, tokens)) continue;
    if (!now) now = cache_.reusable(task.list, task.request.domain);
    if (tokens < *now + plan::kPageTokens) continue;
    task.leader = other->id;
    task.leader_tokens = tokens;
    return true;
  }
  return false;
}

// Before the first place. A sampler takes memory, so those that wait have none.
Status SchedulerLoop::prepare(Task& task) {
  if (task.sampler) return {};
  const Executor& executor = *writer_.executor;
  // Files that were written to give a wrong answer without a fault.
  ORRERY_TRY_VOID(executor.check_files());
  ORRERY_TRY(Sampler sampler,
             Sampler::create(task.request.sampling, writer_.vocab, executor.context(), scratch_));
  task.sampler.emplace(std::move(sampler));
  task.sampler->set_history(task.list);
  if (task.list.size() > executor.context()) shift(task);
  return {};
}

void SchedulerLoop::give_place(std::size_t index, Session* session) {
  active_.push_back(std::move(waiting_[index]));
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
  Task& task = *active_.back();
  task.session = session;
  task.sliced_at = slices_;
  if (task.started) return;  // it was preempted
  task.started = clock_();
  task.prefill_total = task.missing();
  task.end.reused_tokens = static_cast<std::uint32_t>(session->held().size());
  stats_.prompt_tokens += task.end.prompt_tokens;
  stats_.reused_tokens += task.end.reused_tokens;
}

// False when `needy` has lost its own place.
bool SchedulerLoop::make_room(const Task& needy, const Error& error) {
  if (cache_.evict()) return true;
  Task& youngest =
      **std::ranges::max_element(active_, {}, [](const auto& task) { return task->id; });
  const bool stays = &youngest != &needy;
  if (active_.size() == 1) {
    end(youngest, error);
  } else {
    preempt(youngest);
  }
  return stays;
}

void SchedulerLoop::preempt(Task& task) {
  cache_.give_back(std::exchange(task.session, nullptr), false);
  add(remove(active_, task));
  is_full_ = true;
  ++stats_.preempted;
}

void SchedulerLoop::end(Task& task, Outcome outcome) {
  const std::unique_ptr<Task> owned = remove(task.session != nullptr ? active_ : waiting_, task);
  RequestEnd& end = owned->end;
  const auto* const reason = std::get_if<FinishReason>(&outcome);
  if (reason != nullptr && *reason != FinishReason::cancelled) {
    const Status whole = writer_.executor->check_files();
    if (!whole) outcome = whole.error();
  }
  if (const auto* error = std::get_if<Error>(&outcome)) {
    end.error = *error;
    ++stats_.failed;
  } else {
    end.finish = std::get<FinishReason>(outcome);
    const bool is_cancelled = end.finish == FinishReason::cancelled;
    stats_.cancelled += is_cancelled ? 1 : 0;
    if (end.finish == FinishReason::stop_string) {
      end.stop_string = owned->answer.stop_string();
    } else if (!is_cancelled) {
      end.text = owned->answer.rest();
    }
  }
  const double now = clock_();
  const double started = owned->started.value_or(now);
  const double first_token = owned->first_token.value_or(now);
  end.queue_seconds = started - owned->submitted;
  end.prefill_seconds = first_token - started;
  end.decode_seconds = now - first_token;
  if (owned->session != nullptr) {
    end.slot = cache_.slot_of(owned->session);
    if (!end.error) end.held_tokens = static_cast<std::uint32_t>(owned->session->held().size());
    cache_.give_back(owned->session, !end.error);
    is_full_ = false;
  }
  ended_(owned->id);
  owned->events->on_end(end);
}

void SchedulerLoop::end_all(const Error& error) {
  while (!active_.empty()) end(*active_.back(), error);
  while (!waiting_.empty()) end(*waiting_.back(), error);
}

std::vector<SlotState> SchedulerLoop::slots(std::string_view owner) const {
  std::vector<SlotState> states;
  for (const PrefixCache::SlotView& view : cache_.view(owner)) {
    SlotState& state = states.emplace_back();
    state.id = static_cast<std::uint32_t>(states.size()) - 1;
    state.is_busy = view.is_busy;
    if (view.session == nullptr || view.is_foreign) continue;
    state.tokens = static_cast<std::uint32_t>(view.session->held().size());
    const auto task = std::ranges::find(active_, view.session,
                                        [](const auto& active) { return active->session; });
    if (task == active_.end()) continue;
    const Task& runs = **task;
    state.request = runs.id;
    state.prompt_tokens = runs.end.prompt_tokens;
    state.new_tokens = runs.end.new_tokens;
    state.max_tokens = runs.request.max_tokens;
    state.sampling = runs.request.sampling;
  }
  return states;
}

SchedulerStats SchedulerLoop::stats() const {
  SchedulerStats stats = stats_;
  stats.running = static_cast<std::uint32_t>(active_.size());
  stats.queued = static_cast<std::uint32_t>(waiting_.size());
  stats.idle = cache_.idle();
  const auto turn = writer_.executor->turn();
  const KvPages& kv = writer_.executor->kv();
  stats.cache_bytes = kv.committed_bytes();
  stats.cache_budget_bytes = kv.budget_bytes();
  for (std::size_t g = 0; g < kv.n_groups(); ++g) stats.cache_pages += kv.pages_in_use(g);
  return stats;
}

}  // namespace orrery::engine
