#include "engine/embedder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/passes.hpp"

namespace orrery::engine {
namespace {

Status normalize(std::vector<float>& vector, bool wanted) {
  const double squares = std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0);
  if (!std::isfinite(squares) || (wanted && squares == 0.0)) {
    return fail("E_NAN", "the model made no finite vector of this text");
  }
  if (!wanted) return {};
  for (float& x : vector) x = static_cast<float>(x / std::sqrt(squares));
  return {};
}

}  // namespace

Result<std::unique_ptr<Embedder>> Embedder::create(BoundPlan bound, backend::Backend& backend,
                                                   std::uint32_t context, std::uint64_t budget) {
  std::unique_ptr<Embedder> embedder(new Embedder);
  embedder->context_ = context;
  embedder->plan_ = plan::place(fused_for(backend, std::move(bound.plan)), false);
  const std::uint32_t slice = embedder->plan_.capacity.tokens;
  ORRERY_TRY(embedder->kv_,
             KvPages::create(
                 embedder->plan_.groups,
                 {.sequences = 1, .context = context, .slice = slice, .budget_bytes = budget}));
  ORRERY_TRY(embedder->sequence_, embedder->kv_->open());
  ORRERY_TRY(embedder->program_,
             backend.compile(embedder->plan_, {std::move(bound.weights), embedder->kv_->pools(),
                                               std::move(bound.experts)}));
  embedder->positions_.resize(slice);
  embedder->row_sequence_.resize(slice, 0);
  embedder->types_.resize(slice, 0);
  embedder->tables_.resize(embedder->kv_->n_groups());
  return embedder;
}

Result<std::vector<float>> Embedder::embed(std::span<const text::TokenId> ids,
                                           const EmbedOptions& options,
                                           const std::function<void()>& between) {
  if (ids.empty()) return fail("E_TOKENS", "there is no token to make a vector of");
  if (ids.size() > context_) {
    return fail("E_CONTEXT", fmt::format("the text has {} tokens, the model reads {} at most; "
                                         "shorten it or let it be cut",
                                         ids.size(), context_));
  }
  const std::size_t dim = plan_.buffers[static_cast<std::size_t>(plan_.result)].cols;
  if (options.dimensions > dim) {
    return fail("E_RANGE", fmt::format("{} dimensions were asked for, the vectors have {}",
                                       options.dimensions, dim));
  }
  kv_->truncate(sequence_, 0);
  std::size_t start = 0, count = 0;
  for (; start < ids.size(); start += count) {
    count = std::min<std::size_t>(ids.size() - start, plan_.capacity.tokens);
    if (start > 0 && between) between();
    ORRERY_TRY_VOID(run_slice(ids.subspan(start, count), static_cast<std::uint32_t>(start),
                              options.second, between));
  }
  const float* row = program_->result();
  std::vector<float> vector(row, row + (options.dimensions > 0 ? options.dimensions : dim));
  ORRERY_TRY_VOID(normalize(vector, options.normalize));
  return vector;
}

Status Embedder::run_slice(std::span<const text::TokenId> ids, std::uint32_t start,
                           std::size_t second, const std::function<void()>& between) {
  ORRERY_TRY_VOID(kv_->extend(sequence_, start + static_cast<std::uint32_t>(ids.size())));
  std::iota(positions_.begin(), positions_.end(), static_cast<std::int32_t>(start));
  for (std::size_t i = 0; i < ids.size(); ++i)
    types_[i] = second > 0 && start + i >= second ? 1 : 0;
  for (std::size_t g = 0; g < tables_.size(); ++g) tables_[g] = kv_->table(sequence_, g);
  backend::Batch batch;
  batch.n_tokens = static_cast<std::int32_t>(ids.size());
  batch.n_sequences = batch.n_outputs = 1;
  batch.ids = ids.data();
  batch.positions = positions_.data();
  batch.row_sequence = row_sequence_.data();
  batch.types = types_.data();
  batch.page_tables = tables_;
  batch.pages_stride = kv_->stride();
  // Layers are alike, so that a part of the steps is the same part of the work.
  const std::uint32_t n = program_->n_steps();
  const auto tokens = static_cast<std::uint32_t>(ids.size());
  const std::uint32_t part = std::max(1U, n * kPartTokens / std::max(tokens, kPartTokens));
  for (std::uint32_t first = 0; first < n; first += part) {
    if (first > 0 && between) between();
    ORRERY_TRY_VOID(program_->run(batch, first, std::min(n, first + part)));
  }
  kv_->drop_behind(sequence_);
  return {};
}

}  // namespace orrery::engine
