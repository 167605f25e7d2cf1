#include "server/models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "base/check.hpp"

namespace orrery::server {
namespace {

using Clock = std::chrono::steady_clock;

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1U << 20));
}

std::unexpected<ApiError> unknown() {
  return refuse(404, "the model is not served here; GET /v1/models lists those that are", "model",
                "model_not_found");
}

std::unexpected<ApiError> in_use() {
  return refuse(409, "the model is in use; try again when its answers have ended", "model",
                "model_in_use");
}

ApiError unavailable(std::string message, std::string code, int retry_after) {
  ApiError error{503, std::move(message), "model", std::move(code)};
  error.retry_after = retry_after;
  return error;
}

ApiError draining_error() {
  return unavailable("the server is ending", "draining", 1);
}

ApiError queue_full() {
  return unavailable("too many requests wait for models; try again", "queue_full", 1);
}

std::string_view plain_name(std::string_view name) {
  constexpr std::string_view kLatest = ":latest";
  if (name.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  return name;
}

std::size_t bytes_of(const std::map<WaiterId, Waiting>& all) {
  std::size_t bytes = 0;
  for (const auto& [waiter, waiting] : all) bytes += waiting.bytes;
  return bytes;
}

}  // namespace

Models::Models(std::unique_ptr<ModelStore> store, const std::vector<ModelSource>& sources,
               const ModelsOptions& options)
    : store_(std::move(store)), options_(options), residency_(options.residency) {
  for (const ModelSource& source : sources) {
    ORRERY_CHECK(!names_.contains(source.id));
    add_slot(source);
  }
  keeper_ = std::thread([this] { keep(); });
}

Models::~Models() {
  drain();
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  keeper_.join();
  // The last answers end here and give their leases back.
  for (Entry& entry : entries_) {
    std::shared_ptr<ServedModel> served;  // ends after the lock
    const Lock lock(mutex_);
    served.swap(entry.served);
  }
}

void Models::add_slot(const ModelSource& source) {
  for (SlotId slot = 0; slot < entries_.size(); ++slot) {
    Entry& entry = entries_[slot];
    if (entry.names.empty() || entry.source.identity != source.identity) continue;
    entry.names.push_back(source.id);
    names_.emplace(source.id, slot);
    return;
  }
  const Keep keep = source.named ? options_.keep_named : options_.keep_others;
  const SlotId slot = residency_.add(source.bytes, keep);
  entries_.push_back({source, {source.id}, nullptr, nullptr, {}, 0, 0, nullptr});
  names_.emplace(source.id, slot);
}

ApiResult<SlotId> Models::slot_of(std::string_view name) const {
  if (name.empty() || name == "default") {
    const auto first =
        std::ranges::find_if(entries_, [](const Entry& entry) { return !entry.names.empty(); });
    if (first == entries_.end()) return unknown();
    return static_cast<SlotId>(first - entries_.begin());
  }
  auto found = names_.find(name);
  if (found == names_.end()) found = names_.find(plain_name(name));
  if (found == names_.end()) return unknown();
  return found->second;
}

ApiResult<std::shared_ptr<ServedModel>> Models::find(std::string_view name) const {
  const Lock lock(mutex_);
  ORRERY_TRY(const SlotId slot, slot_of(name));
  if (entries_[slot].served != nullptr) return entries_[slot].served;
  return std::unexpected(unavailable("the model is not loaded", "model_not_loaded", 1));
}

ApiResult<std::shared_ptr<ServedModel>> Models::find_writer(std::string_view name) const {
  ORRERY_TRY(auto model, find(name));
  if (model->scheduler != nullptr) return model;
  return std::unexpected(not_generative(*model));
}

std::vector<std::shared_ptr<ServedModel>> Models::all() const {
  const Lock lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> loaded;
  for (const Entry& entry : entries_) {
    if (entry.served != nullptr) loaded.push_back(entry.served);
  }
  return loaded;
}

ModelStatus Models::status(SlotId slot, const std::string& name) const {
  const Entry& entry = entries_[slot];
  ModelStatus status{.id = name,
                     .is_first = name == entry.names.front(),
                     .presence = residency_.presence(slot),
                     .source = entry.source,
                     .memory_bytes = residency_.bytes(slot),
                     .expires = std::nullopt,
                     .facts = entry.facts,
                     .loads = entry.loads,
                     .evictions = entry.evictions};
  const Moment now = Clock::now();
  if (const auto moment = residency_.expires(slot, now)) {
    const auto left =
        std::chrono::duration_cast<std::chrono::system_clock::duration>(*moment - now);
    status.expires = std::chrono::system_clock::now() + left;
  }
  return status;
}

std::vector<ModelStatus> Models::list() const {
  const Lock lock(mutex_);
  std::vector<ModelStatus> all;
  for (SlotId slot = 0; slot < entries_.size(); ++slot) {
    for (const std::string& name : entries_[slot].names) all.push_back(status(slot, name));
  }
  return all;
}

ApiResult<ModelStatus> Models::describe(std::string_view name) const {
  const Lock lock(mutex_);
  ORRERY_TRY(const SlotId slot, slot_of(name));
  const auto found = names_.find(name);
  return status(slot, found != names_.end() ? found->first : entries_[slot].names.front());
}

ApiResult<ModelStatus> Models::inspect(std::string_view name) {
  ORRERY_TRY(ModelStatus found, describe(name));
  if (found.facts != nullptr) return found;
  auto facts = store_->inspect(found.source);
  if (!facts) return found;  // its lists stay short
  const Lock lock(mutex_);
  ORRERY_TRY(const SlotId slot, slot_of(name));
  Entry& entry = entries_[slot];
  if (entry.facts == nullptr) entry.facts = std::make_shared<const ModelFacts>(std::move(*facts));
  return status(slot, found.id);
}

std::size_t Models::waiting() const {
  const Lock lock(mutex_);
  return residency_.waiting();
}

Lease Models::lease(SlotId slot) {
  return {static_cast<void*>(this),
          [slot](void* models) { static_cast<Models*>(models)->release(slot); }};
}

void Models::release(SlotId slot) {
  {
    const Lock lock(mutex_);
    residency_.release(slot, Clock::now());
  }
  changed_.notify_all();
}

std::optional<ApiResult<Lease>> Models::ask(WaiterId waiter, std::string_view name,
                                            std::optional<Keep> keep, Waiting waiting) {
  Lock lock(mutex_);
  const auto slot = slot_of(name);
  if (!slot) return std::unexpected(slot.error());
  if (draining_) return std::unexpected(draining_error());
  switch (residency_.ask(*slot, keep, waiter, Clock::now())) {
    case Residency::Answer::granted:
      lock.unlock();
      return lease(*slot);
    case Residency::Answer::full:
      return std::unexpected(queue_full());
    case Residency::Answer::failed:
      return std::unexpected(refusal(*slot, Residency::Reason::failed));
    case Residency::Answer::retired:
      return unknown();
    case Residency::Answer::waits:
      break;
  }
  if (waiting.bytes > Worker::kMaxBytes - bytes_of(waiting_)) {
    residency_.cancel(waiter);
    return std::unexpected(queue_full());
  }
  waiting_.emplace(waiter, std::move(waiting));
  lock.unlock();
  changed_.notify_all();
  return std::nullopt;
}

void Models::cancel(WaiterId waiter) {
  Waiting waiting;  // ends after the lock: what it holds may be a request's last owner
  {
    const Lock lock(mutex_);
    residency_.cancel(waiter);
    if (auto node = waiting_.extract(waiter)) waiting = std::move(node.mapped());
  }
  changed_.notify_all();
}

ApiError Models::refusal(SlotId slot, Residency::Reason reason) const {
  const Entry& entry = entries_[slot];
  const std::string needed = mebibytes(residency_.bytes(slot));
  const std::string budget = mebibytes(residency_.options().budget);
  switch (reason) {
    case Residency::Reason::too_large:
      return unavailable(fmt::format("the model needs {} of memory, more than the {} that models "
                                     "may have: raise --memory or lower --cache",
                                     needed, budget),
                         "out_of_memory", 0);
    case Residency::Reason::patience:
      return unavailable(fmt::format("the model needs {} of the {} of memory that models may have, "
                                     "and others that are in use leave too little: try again, or "
                                     "raise --memory",
                                     needed, budget),
                         "out_of_memory", 10);
    case Residency::Reason::failed:
      break;
  }
  ApiError error{500,
                 fmt::format("the model could not be loaded ({}); the server's log says why",
                             entry.failure.kind),
                 "model", "model_load_failed"};
  if (entry.failure.kind != "E_MEMORY") return error;
  error.status = 503;
  error.retry_after = 10;
  return error;
}

Status Models::preload() {
  for (SlotId slot = 0; slot < entries_.size(); ++slot) {
    std::string name;
    {
      const Lock lock(mutex_);
      const Entry& entry = entries_[slot];
      if (!entry.source.named) continue;
      name = entry.names.front();
      const std::uint64_t budget = budget_bytes();
      if (budget > 0 && residency_.bytes(slot) > budget) {
        return fail("E_MEMORY",
                    fmt::format("the model {} needs {} of memory and may have {}: "
                                "raise --memory or lower --cache",
                                name, mebibytes(residency_.bytes(slot)), mebibytes(budget)));
      }
      if (!residency_.fits(slot)) continue;
    }
    std::promise<bool> loaded;
    const auto at_once = ask(
        new_waiter(), name, std::nullopt,
        {.answered = [&](const ApiResult<Lease>& lease) { loaded.set_value(lease.has_value()); },
         .waits_long = nullptr});
    if (at_once ? at_once->has_value() : loaded.get_future().get()) continue;
    const Lock lock(mutex_);
    if (entries_[slot].failure.message.empty()) {
      return fail("E_MEMORY", refusal(slot, Residency::Reason::too_large).message);
    }
    return std::unexpected(entries_[slot].failure);
  }
  return {};
}

ApiStatus Models::unload(std::string_view name) {
  {
    const Lock lock(mutex_);
    ORRERY_TRY(const SlotId slot, slot_of(name));
    residency_.expire(slot);
  }
  changed_.notify_all();
  return {};
}

bool Models::add(const ModelSource& source) {
  const Lock lock(mutex_);
  const auto known = names_.find(source.id);
  if (known != names_.end()) return entries_[known->second].source.identity == source.identity;
  add_slot(source);
  return true;
}

ApiStatus Models::remove(std::string_view name, std::function<void(ApiStatus)> done) {
  {
    const Lock lock(mutex_);
    ORRERY_TRY(const SlotId slot, slot_of(name));
    Entry& entry = entries_[slot];
    if (const Status allowed = store_->check_remove(entry.source); !allowed) {
      if (allowed.error().kind == "E_BUSY") return in_use();
      return refuse(403,
                    "the model does not lie in Orrery's cache: only what was pulled there is "
                    "deleted",
                    "model", "not_in_cache");
    }
    if (entry.removed || draining_ || !residency_.retire(slot)) return in_use();
    entry.removed = std::move(done);
  }
  changed_.notify_all();
  return {};
}

void Models::drain() {
  std::map<WaiterId, Waiting> refused;
  {
    Lock lock(mutex_);
    draining_ = true;
    for (const auto& [waiter, waiting] : waiting_) residency_.cancel(waiter);
    refused.swap(waiting_);
    changed_.wait(lock, [this] { return !answering_; });
  }
  for (const auto& [waiter, waiting] : refused) waiting.answered(std::unexpected(draining_error()));
}

void Models::keep() {
  Lock lock(mutex_);
  while (!stop_) {
    const Moment now = Clock::now();
    const Residency::Step step = residency_.next(now);
    if (step.kind != Residency::Step::Kind::none) {
      perform(step, lock);
    } else if (const auto wake = residency_.wake(now)) {
      changed_.wait_until(lock, *wake);
    } else {
      changed_.wait(lock);
    }
  }
}

void Models::perform(const Residency::Step& step, Lock& lock) {
  switch (step.kind) {
    case Residency::Step::Kind::none:
      return;
    case Residency::Step::Kind::grant:
    case Residency::Step::Kind::notice:
    case Residency::Step::Kind::refuse:
      return answer(step, lock);
    case Residency::Step::Kind::load:
      // One is loaded at a time, so the queue is empty.
      ORRERY_CHECK(loader_.push([this, slot = step.slot] { load(slot); }, 0));
      return;
    case Residency::Step::Kind::unload: {
      Entry& entry = entries_[step.slot];
      if (step.evicted) ++entry.evictions;
      auto served = std::exchange(entry.served, nullptr);
      lock.unlock();
      served.reset();  // its scheduler's thread ends here
      lock.lock();
      residency_.unloaded(step.slot);
      return;
    }
    case Residency::Step::Kind::retired:
      return finish_removal(step.slot, lock);
  }
}

void Models::answer(const Residency::Step& step, Lock& lock) {
  const auto found = waiting_.find(step.waiter);
  ORRERY_CHECK(found != waiting_.end());
  answering_ = true;
  if (step.kind == Residency::Step::Kind::notice) {
    const auto waits_long = found->second.waits_long;
    lock.unlock();
    if (waits_long) waits_long();
  } else {
    ApiResult<Lease> result = std::unexpected(ApiError{});
    if (step.kind == Residency::Step::Kind::grant) {
      result = lease(step.slot);
    } else {
      result = std::unexpected(refusal(step.slot, step.reason));
    }
    auto waiting = std::move(waiting_.extract(found).mapped());
    lock.unlock();
    waiting.answered(std::move(result));
    waiting = {};
  }
  lock.lock();
  answering_ = false;
  changed_.notify_all();
}

void Models::finish_removal(SlotId slot, Lock& lock) {
  const ModelSource source = entries_[slot].source;
  lock.unlock();
  const Status removed = store_->remove(source);
  lock.lock();
  Entry& entry = entries_[slot];
  const auto done = std::exchange(entry.removed, nullptr);
  ApiStatus status;
  if (removed) {
    for (const std::string& name : std::exchange(entry.names, {})) names_.erase(name);
  } else {
    residency_.revive(slot);
    status = refuse(500, "the files could not be deleted; the server's log says why", "model");
  }
  answering_ = true;
  lock.unlock();
  if (done) done(std::move(status));
  lock.lock();
  answering_ = false;
  changed_.notify_all();
}

void Models::load(SlotId slot) {
  ModelSource source;
  {
    const Lock lock(mutex_);
    source = entries_[slot].source;
  }
  auto loaded = store_->load(source);
  {
    const Lock lock(mutex_);
    store_loaded(slot, std::move(loaded));
  }
  changed_.notify_all();
}

void Models::store_loaded(SlotId slot, Result<LoadedModel> loaded) {
  Entry& entry = entries_[slot];
  if (!loaded) {
    entry.failure = std::move(loaded.error());
    residency_.failed(slot, Clock::now());
    return;
  }
  entry.served = std::move(loaded->served);
  entry.facts = std::make_shared<const ModelFacts>(std::move(loaded->facts));
  ++entry.loads;
  residency_.loaded(slot, memory_of(entry.facts->info), Clock::now());
}

}  // namespace orrery::server
