#include "server/model_store.hpp"

namespace orrery::server {

ModelFacts facts_of(const engine::Model& model) {
  const bool writes = model.check_writes().has_value();
  return {.info = model.info(),
          .n_tokens = model.n_tokens(),
          .embedding_dim = model.hparams().embedding_dim(),
          .writes = writes,
          .ranks = model.hparams().ranks,
          .slots = writes ? model.options().max_sequences : 0};
}

std::vector<std::string_view> capabilities(const ModelFacts& facts) {
  std::vector<std::string_view> all;
  if (facts.writes) all.emplace_back("completion");
  all.emplace_back(facts.ranks ? "rerank" : "embedding");
  return all;
}

std::uint64_t memory_of(const engine::ModelInfo& info) {
  return info.weight_bytes + info.copied_bytes + info.scratch_bytes + info.cache_budget_bytes;
}

std::uint64_t memory_in_use(const ServedModel& served) {
  engine::ModelInfo info = served.model->info();
  info.cache_budget_bytes = served.scheduler == nullptr ? 0 : served.scheduler->stats().cache_bytes;
  return memory_of(info);
}

}  // namespace orrery::server
