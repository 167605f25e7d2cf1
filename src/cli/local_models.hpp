// The models of this machine, for the server: those that the operator names, those of folders and
// stores that it may use, and what it pulls into Orrery's cache.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cli/open_model.hpp"
#include "cli/serve_settings.hpp"
#include "server/model_store.hpp"

namespace orrery::cli {

// What models may take together, from the settings: 0 is no limit. Without one in the settings it
// is what is available now, if models can come beyond those that are named.
std::uint64_t memory_budget(const ServeSettings& settings);

class LocalModels final : public server::ModelStore {
 public:
  // `settings.memory` is what memory_budget() says.
  explicit LocalModels(ServeSettings settings) : settings_(std::move(settings)) {}

  // Named ones first, in their order; no two have one id. E_NOMODEL and E_CHECKSUM as
  // storage::locate, kUsageError where two files would have one name.
  Result<std::vector<server::ModelSource>> sources() const;

  Result<server::LoadedModel> load(const server::ModelSource& source) override;
  Result<server::ModelFacts> inspect(const server::ModelSource& source) override;
  Result<server::ModelSource> pull(
      const std::string& name,
      const std::function<bool(const server::PullEvent&)>& progress) override;
  Status check_remove(const server::ModelSource& source) override;
  Status remove(const server::ModelSource& source) override;

 private:
  server::ModelSource source(const std::string& id, const std::string& path) const;
  // Most that the cache of a model with so many bytes of weights takes; 0: half of what is
  // available when it is loaded.
  std::uint64_t cache_bytes(std::uint64_t weights) const;
  Result<server::LoadedModel> open(const server::ModelSource& source) const;

  const ServeSettings settings_;
  std::mutex mutex_;
  std::set<std::string> written_;  // paths that are being pulled
};

}  // namespace orrery::cli
