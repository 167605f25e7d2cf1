// A store of models that only pretends.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "server/model_store.hpp"

namespace orrery::server {

// Loads at once, or when the test lets it; fails where it should.
class FakeStore final : public ModelStore {
 public:
  Result<LoadedModel> load(const ModelSource& source) override {
    std::unique_lock lock(mutex);
    ++loads;
    changed.notify_all();
    changed.wait(lock, [this] { return open; });
    if (broken.contains(source.id)) return fail("E_TRUNC", "/secret/path is cut off");
    auto served = std::make_shared<ServedModel>();
    served->id = source.id;
    LoadedModel loaded{served, {}};
    loaded.facts.info.weight_bytes = source.bytes;
    return loaded;
  }
  Result<ModelFacts> inspect(const ModelSource& source) override {
    if (source.id == "broken") return fail("E_TRUNC", "no");
    ModelFacts facts;
    facts.info.family = "fake";
    return facts;
  }
  Result<ModelSource> pull(const std::string&,
                           const std::function<bool(const PullEvent&)>&) override {
    return fail("E_NOMODEL", "nothing to pull");
  }
  Status check_remove(const ModelSource& source) override {
    return source.path == "/elsewhere" ? Status(fail("E_PLACE", "")) : Status();
  }
  Status remove(const ModelSource& source) override {
    const std::lock_guard lock(mutex);
    if (undeletable) return fail("E_DISK", "no");
    removed.insert(source.path);
    return {};
  }
  void set_open(bool is_open) {
    const std::lock_guard lock(mutex);
    open = is_open;
    changed.notify_all();
  }
  void wait_for_loads(int count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return loads >= count; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  int loads = 0;
  bool open = true, undeletable = false;
  std::set<std::string> broken, removed;
};

}  // namespace orrery::server
