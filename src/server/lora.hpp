// LoRA adapters over HTTP: which ones the answers of a model have, and how much of each.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/session.hpp"
#include "server/fields.hpp"

namespace orrery::server {

struct ServedAdapter {
  std::uint32_t id = 0;  // of Model::load_adapter
  std::string name;      // the file's, without its folder
  float scale = 1.0F;    // of requests that say nothing
};

// The adapters of one model. A client that sets their factors (POST /lora-adapters) sets those of
// its own key alone.
class Adapters {
 public:
  // Before the model is served.
  void load(std::vector<ServedAdapter> adapters) { loaded_ = std::move(adapters); }
  std::size_t size() const { return loaded_.size(); }
  // With the factors that requests of this domain have when they name none.
  std::vector<ServedAdapter> of(const std::string& domain) const;
  void set(const std::string& domain, const std::vector<engine::AdapterUse>& uses);

 private:
  std::vector<ServedAdapter> loaded_;  // by their ids
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<float>> scales_;  // by domain, where they were set
};

// Those with another factor than 0.
std::vector<engine::AdapterUse> uses_of(const std::vector<ServedAdapter>& adapters);

// [{"id": 0, "scale": 0.5}, ...]; those that are not named are not used. 400 for what is no such
// list, names an adapter that is not there or one twice.
ApiResult<std::vector<engine::AdapterUse>> parse_adapters(const Json& list, std::size_t count,
                                                          std::string_view param);

}  // namespace orrery::server
