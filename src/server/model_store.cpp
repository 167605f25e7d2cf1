#include "server/model_store.hpp"

namespace orrery::server {

ModelFacts facts_of(const engine::Model& model) {
  return {.info = model.info(),
          .n_tokens = model.n_tokens(),
          .embedding_dim = model.hparams().embedding_dim(),
          .writes = model.check_writes().has_value()};
}

std::uint64_t memory_of(const engine::ModelInfo& info) {
  return info.weight_bytes + info.copied_bytes + info.scratch_bytes + info.cache_budget_bytes;
}

}  // namespace orrery::server
