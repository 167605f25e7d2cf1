// The models that the server may use: those in memory, and those that the first request for them
// brings there. What is loaded and what goes is decided in residency.hpp; here are the threads: one
// that does as it says (the keeper), one that loads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/api_error.hpp"
#include "server/model_store.hpp"
#include "server/residency.hpp"
#include "server/served_model.hpp"
#include "server/worker.hpp"

namespace orrery::server {

struct ModelsOptions {
  ResidencyOptions residency;
  Keep keep_named = kForever;  // after a use, of models named at the start
  Keep keep_others{300'000};
};

// For lists.
struct ModelStatus {
  std::string id;
  bool is_first = true;  // of the names of one model
  Presence presence = Presence::absent;
  ModelSource source;
  std::uint64_t memory_bytes = 0;                                // it takes, or is expected to
  std::optional<std::chrono::system_clock::time_point> expires;  // nothing: away, or stays
  std::shared_ptr<const ModelFacts> facts;  // null until it was loaded or inspected once
  std::uint64_t loads = 0, evictions = 0;
};

// While somebody holds it, the model stays.
using Lease = std::shared_ptr<void>;

// Both are called on the keeper's thread: they return at once.
struct Waiting {
  std::function<void(ApiResult<Lease>)> answered;  // once
  std::function<void()> waits_long;                // at most once, before
  std::size_t bytes = 0;                           // that it holds; their sum is bounded
};

class Models {
 public:
  // Ids are distinct.
  Models(std::unique_ptr<ModelStore> store, const std::vector<ModelSource>& sources,
         const ModelsOptions& options);
  ~Models();  // those who wait are refused
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  // Of models in memory, by id, with or without Ollama's ":latest"; "" and "default" mean the first
  // of all. 404 for a name that there is not, always with the same text; 503 for one that is not in
  // memory. Who does not hold a lease may find it gone the next time.
  ApiResult<std::shared_ptr<ServedModel>> find(std::string_view name) const;
  // 400 for one that only makes vectors.
  ApiResult<std::shared_ptr<ServedModel>> find_writer(std::string_view name) const;
  std::vector<std::shared_ptr<ServedModel>> all() const;

  WaiterId new_waiter() { return ++waiters_; }
  // A lease or a refusal at once, or nothing: then it is loaded and `waiting` is called. `keep`:
  // how long it stays after this use.
  std::optional<ApiResult<Lease>> ask(WaiterId waiter, std::string_view name,
                                      std::optional<Keep> keep, Waiting waiting);
  // Whoever waits by that number, if anybody, will hear nothing any more.
  void cancel(WaiterId waiter);

  // Loads the models that were named, as far as they fit beside each other; returns when they are
  // there, or with the first error. E_MEMORY for one that the budget cannot hold at all.
  Status preload();
  // It goes once its last answer has ended.
  ApiStatus unload(std::string_view name);
  // A new source, or new files of an old one. False when another model has its id.
  bool add(const ModelSource& source);
  // Unloads, then deletes the files: `done` hears of it on the keeper's thread, unless there is a
  // refusal at once: 404, 403 outside of Orrery's cache, 409 while it is in use or written.
  ApiStatus remove(std::string_view name, std::function<void(ApiStatus)> done);
  Result<ModelSource> pull(const std::string& name,
                           const std::function<bool(const PullEvent&)>& progress) {
    return store_->pull(name, progress);
  }
  // Nothing is loaded any more and those who wait are refused. Nobody hears of anything after it.
  void drain();

  std::vector<ModelStatus> list() const;
  ApiResult<ModelStatus> describe(std::string_view name) const;
  // The same with facts, for which it reads the model's files if need be.
  ApiResult<ModelStatus> inspect(std::string_view name);
  std::uint64_t budget_bytes() const { return residency_.options().budget; }
  std::size_t waiting() const;

 private:
  struct Entry {
    ModelSource source;
    std::vector<std::string> names;
    std::shared_ptr<ServedModel> served;  // while it is in memory
    std::shared_ptr<const ModelFacts> facts;
    Error failure;  // of the last load
    std::uint64_t loads = 0, evictions = 0;
    std::function<void(ApiStatus)> removed;  // set while it is being removed
  };
  using Lock = std::unique_lock<std::mutex>;

  // Called with the mutex held:
  ApiResult<SlotId> slot_of(std::string_view name) const;
  ModelStatus status(SlotId slot, const std::string& name) const;
  void add_slot(const ModelSource& source);
  ApiError refusal(SlotId slot, Residency::Reason reason) const;
  void store_loaded(SlotId slot, Result<LoadedModel> loaded);

  Lease lease(SlotId slot);
  void release(SlotId slot);
  void load(SlotId slot);
  void keep();
  void perform(const Residency::Step& step, Lock& lock);
  void answer(const Residency::Step& step, Lock& lock);
  void finish_removal(SlotId slot, Lock& lock);

  const std::unique_ptr<ModelStore> store_;
  const ModelsOptions options_;
  std::atomic<WaiterId> waiters_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Residency residency_;
  std::vector<Entry> entries_;  // by slot
  std::map<std::string, SlotId, std::less<>> names_;
  std::map<WaiterId, Waiting> waiting_;
  bool draining_ = false, stop_ = false;
  bool answering_ = false;  // the keeper calls somebody
  Worker loader_;
  std::thread keeper_;
};

}  // namespace orrery::server
