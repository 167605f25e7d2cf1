#include "engine/embedder.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/passes.hpp"

namespace orrery::engine {

Result<std::unique_ptr<Embedder>> Embedder::create(BoundPlan bound, backend::Backend& backend,
                                                   std::uint32_t context, std::uint64_t budget) {
  std::unique_ptr<Embedder> embedder(new Embedder);
  embedder->plan_ = plan::place(fused_for(backend, std::move(bound.plan)), false);
  ORRERY_TRY(embedder->kv_,
             KvPages::create(embedder->plan_.groups, {.sequences = 1,
                                                      .context = context,
                                                      .slice = embedder->plan_.capacity.tokens,
                                                      .budget_bytes = budget}));
  ORRERY_TRY(embedder->sequence_, embedder->kv_->open());
  ORRERY_TRY(embedder->program_,
             backend.compile(embedder->plan_, {std::move(bound.weights), embedder->kv_->pools(),
                                               std::move(bound.experts)}));
  return embedder;
}

Result<std::vector<float>> Embedder::embed(std::span<const text::TokenId> ids) {
  if (ids.empty()) return fail("E_TOKENS", "there is no token to make a vector of");
  kv_->truncate(sequence_, 0);
  std::size_t start = 0, count = 0;
  for (; start < ids.size(); start += count) {
    count = std::min<std::size_t>(ids.size() - start, plan_.capacity.tokens);
    ORRERY_TRY_VOID(run_slice(ids.subspan(start, count), static_cast<std::uint32_t>(start)));
  }
  const std::vector<float> rows =
      program_->download(plan_.result, static_cast<std::int64_t>(count));
  const std::size_t dim = rows.size() / count;
  std::vector<float> vector(rows.end() - static_cast<std::ptrdiff_t>(dim), rows.end());
  const double squares = std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0);
  if (!std::isfinite(squares) || squares == 0.0) {
    return fail("E_NAN", "the model made no finite vector of this text");
  }
  for (float& x : vector) x = static_cast<float>(x / std::sqrt(squares));
  return vector;
}

Status Embedder::run_slice(std::span<const text::TokenId> ids, std::uint32_t start) {
  ORRERY_TRY_VOID(kv_->extend(sequence_, start + static_cast<std::uint32_t>(ids.size())));
  std::vector<std::int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(start));
  const std::vector<std::int32_t> row_sequence(ids.size(), 0);
  std::vector<const std::int32_t*> tables;
  for (std::size_t g = 0; g < kv_->n_groups(); ++g) tables.push_back(kv_->table(sequence_, g));
  backend::Batch batch;
  batch.n_tokens = static_cast<std::int32_t>(ids.size());
  batch.n_sequences = 1;
  batch.ids = ids.data();
  batch.positions = positions.data();
  batch.row_sequence = row_sequence.data();
  batch.page_tables = tables;
  batch.pages_stride = kv_->stride();
  ORRERY_TRY_VOID(program_->run(batch, 0, program_->n_steps()));
  kv_->drop_behind(sequence_);
  return {};
}

}  // namespace orrery::engine
