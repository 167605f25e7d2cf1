// The scheduler's thread and what crosses its border.
#include "engine/scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/clock.hpp"
#include "engine/scheduler_loop.hpp"

namespace orrery::engine {
namespace {

// Tells what was computed with different adapters apart.
std::string domain_of(const Request& request) {
  std::string domain = request.domain;
  for (const AdapterUse& use : request.adapters) {
    domain += fmt::format("\n{}:{:a}", use.id, use.scale);
  }
  return domain;
}

class ThreadedScheduler final : public Scheduler {
 public:
  ThreadedScheduler(Writer writer, const SchedulerOptions& options)
      : writer_(std::move(writer)),
        most_(std::size_t{options.running} + options.queued),
        loop_(writer_, options.running, now_seconds, [this](RequestId id) { forget(id); }) {
    stats_ = loop_.stats();
  }

  ~ThreadedScheduler() override {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  Status start_thread() {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {
      return fail("E_THREAD", "the system refuses another thread; end other programs");
    }
    return {};
  }

  Result<RequestId> submit(Request request, std::shared_ptr<RequestEvents> events) override {
    ORRERY_TRY_VOID(check_request(request, writer_));
    request.domain = domain_of(request);
    auto task = std::make_unique<Task>(0, std::move(request), std::move(events), *writer_.tokenizer,
                                       now_seconds());
    RequestId id = 0;
    {
      const std::lock_guard lock(mutex_);
      if (drains_)
        return fail("E_STOPPED", "the model takes no more requests: it is shutting down");
      if (cancels_.size() >= most_) {
        ++refused_;
        return fail("E_BUSY", fmt::format("{} requests run or wait already; try again later",
                                          cancels_.size()));
      }
      id = task->id = ++requests_;
      cancels_.emplace(id, task->cancelled);
      mail_.push_back(std::move(task));
    }
    wake_.notify_one();
    return id;
  }

  void cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    const auto found = cancels_.find(id);
    if (found != cancels_.end()) found->second->store(true, std::memory_order_relaxed);
  }

  void drain() override {
    const std::lock_guard lock(mutex_);
    drains_ = true;
  }

  void stop() override {
    {
      const std::lock_guard lock(mutex_);
      drains_ = ends_all_ = true;
    }
    wake_.notify_one();
  }

  std::vector<SlotState> slots(const std::string& domain) override {
    std::vector<SlotState> states;
    between_ticks([&] { states = loop_.slots(domain); });
    return states;
  }

  Status use_slot(std::uint32_t id, const std::string& domain,
                  const std::function<Status(Session&)>& work) override {
    Result<Session*> session = nullptr;
    between_ticks([&] { session = loop_.set_aside(id, domain); });
    if (!session) return std::unexpected(session.error());
    const Status done = work(**session);
    between_ticks([&] { loop_.put_back(*session, domain); });
    return done;
  }

  SchedulerStats stats() const override {
    const std::lock_guard lock(mutex_);
    SchedulerStats stats = stats_;
    // Some of them may be on the way from the mail to a place.
    const auto alive = static_cast<std::uint32_t>(cancels_.size());
    stats.running = std::min(stats.running, alive);
    stats.queued = alive - stats.running;
    stats.requests = requests_;
    stats.refused = refused_;
    return stats;
  }

 private:
  struct Errand {
    std::function<void()> run;
    bool is_done = false;  // guarded by mutex_
  };

  // Has the thread run it, and waits.
  void between_ticks(std::function<void()> run) {
    Errand errand{std::move(run)};
    std::unique_lock lock(mutex_);
    errands_.push_back(&errand);
    wake_.notify_one();
    errand_done_.wait(lock, [&] { return errand.is_done; });
  }

  // Lets go of the lock meanwhile.
  void run_errands(std::unique_lock<std::mutex>& lock) {
    if (errands_.empty()) return;
    const std::vector<Errand*> errands = std::exchange(errands_, {});
    lock.unlock();
    for (Errand* errand : errands) errand->run();
    lock.lock();
    for (Errand* errand : errands) errand->is_done = true;
    errand_done_.notify_all();
  }

  void work() {
    std::vector<std::unique_ptr<Task>> mail;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] {
        return stops_ || ends_all_ || !mail_.empty() || !errands_.empty() || loop_.has_work();
      });
      run_errands(lock);
      mail.swap(mail_);
      const bool stops = stops_;
      const bool ends_all = std::exchange(ends_all_, false);
      lock.unlock();
      for (auto& task : mail) loop_.add(std::move(task));
      mail.clear();
      if (stops || ends_all) {
        loop_.end_all({"E_STOPPED", "the model was closed before the answer was complete"});
      }
      if (stops) return;
      loop_.tick();
      const SchedulerStats stats = loop_.stats();
      lock.lock();
      stats_ = stats;
    }
  }

  void forget(RequestId id) {
    const std::lock_guard lock(mutex_);
    cancels_.erase(id);
  }

  const Writer writer_;
  const std::size_t most_;  // requests that run or wait
  mutable std::mutex mutex_;
  std::condition_variable wake_, errand_done_;
  // Guarded by mutex_.
  std::vector<std::unique_ptr<Task>> mail_;
  std::unordered_map<RequestId, std::shared_ptr<std::atomic<bool>>> cancels_;  // that have no end
  std::vector<Errand*> errands_;  // of callers that wait
  bool drains_ = false, ends_all_ = false, stops_ = false;
  std::uint64_t requests_ = 0, refused_ = 0;
  SchedulerStats stats_;

  SchedulerLoop loop_;  // the thread's
  std::thread thread_;
};

}  // namespace

Status check_request(const Request& request, const Writer& writer) {
  const Executor& executor = *writer.executor;
  ORRERY_TRY_VOID(check_tokens(request.prompt, executor));
  EvaluateOptions options;
  options.overflow = request.overflow;
  options.keep = request.keep;
  ORRERY_TRY_VOID(check_length(request.prompt.size(), executor, options));
  return validate(request.sampling, writer.vocab);
}

Result<std::unique_ptr<Scheduler>> start_scheduler(Writer writer, const SchedulerOptions& options) {
  if (options.running == 0) {
    return fail("E_PARAM", "the number of requests that run at once is 0; give 1 or more");
  }
  auto scheduler = std::make_unique<ThreadedScheduler>(std::move(writer), options);
  ORRERY_TRY_VOID(scheduler->start_thread());
  return scheduler;
}

Result<std::unique_ptr<Scheduler>> Scheduler::start(std::shared_ptr<const Model> model,
                                                    const SchedulerOptions& options) {
  ORRERY_TRY_VOID(model->check_writes());
  SchedulerOptions bounded = options;
  bounded.running = std::min(options.running, model->options().max_sequences);
  return start_scheduler({model->executor(), &model->tokenizer(), model->n_tokens()}, bounded);
}

}  // namespace orrery::engine
