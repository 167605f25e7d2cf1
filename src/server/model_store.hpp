// Where models come from: the files of this machine and the network. The server knows no more of
// it; the program brings its own (cli/local_models.hpp), tests bring others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "engine/model.hpp"
#include "server/served_model.hpp"

namespace orrery::server {

// A model that may be loaded.
struct ModelSource {
  std::string id;  // what clients call it
  std::string path;
  std::string identity;          // the path with links followed: sources of one are one model
  std::uint64_t file_bytes = 0;  // of its weight files
  std::uint64_t bytes = 0;       // that it is expected to take in memory
  std::int64_t modified = 0;     // Unix seconds
  bool named = false;            // by the operator: loaded at the start, and stays
};

// What the lists of models tell. Of one that was never loaded context, memory and slots are 0.
struct ModelFacts {
  engine::ModelInfo info;
  std::int32_t n_tokens = 0;
  std::uint64_t embedding_dim = 0;
  bool writes = false;      // or reads alone
  bool ranks = false;       // makes no vectors
  std::uint32_t slots = 0;  // sequences of its cache
};
ModelFacts facts_of(const engine::Model& model);
// What it is for: "completion", "embedding", "rerank".
std::vector<std::string_view> capabilities(const ModelFacts& facts);

// What it takes of the memory budget: its weights once, wherever they lie (mapped pages of the
// file, packed), converted copies, the programs' scratch, and all that its cache may grow to.
std::uint64_t memory_of(const engine::ModelInfo& info);
// What it has of that now: the cache alone grows.
std::uint64_t memory_in_use(const ServedModel& served);

struct LoadedModel {
  std::shared_ptr<ServedModel> served;
  ModelFacts facts;
};

struct PullEvent {
  std::string file, sha256;           // hex; "" where the source does not say
  std::uint64_t done = 0, total = 0;  // bytes; total 0: not known yet
};

class ModelStore {
 public:
  virtual ~ModelStore() = default;
  // Slow. Called on one thread at a time.
  virtual Result<LoadedModel> load(const ModelSource& source) = 0;
  // What its files say, without loading it. Any thread.
  virtual Result<ModelFacts> inspect(const ModelSource& source) = 0;
  // Gets a model by the name that `orrery pull` takes, but no address; slow. `progress` is called a
  // few times a second; false stops it (E_CANCELLED). Called on one thread at a time.
  virtual Result<ModelSource> pull(const std::string& name,
                                   const std::function<bool(const PullEvent&)>& progress) = 0;
  // Why remove() would not: E_PLACE for one that others have put where it is, E_BUSY for one that
  // is being written.
  virtual Status check_remove(const ModelSource& source) = 0;
  // Deletes the files.
  virtual Status remove(const ModelSource& source) = 0;
};

}  // namespace orrery::server
