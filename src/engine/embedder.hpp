// Vectors of texts by a model that was made to write them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/executor.hpp"

namespace orrery::engine {

// The forward pass without the vocabulary head, with a cache of its own for one sequence.
class Embedder {
 public:
  // `bound` is recorded in phase embed.
  static Result<std::unique_ptr<Embedder>> create(BoundPlan bound, backend::Backend& backend,
                                                  std::uint32_t context, std::uint64_t budget);

  // The final hidden state of the last token, scaled to length 1 (hidden). E_CONTEXT when there
  // are more tokens than the context holds, E_TOKENS when there are none, E_NAN when the state is
  // not finite. The backend's threads must be free: hold Executor::turn().
  Result<std::vector<float>> embed(std::span<const text::TokenId> ids);

 private:
  Embedder() = default;
  Status run_slice(std::span<const text::TokenId> ids, std::uint32_t start);

  plan::Plan plan_;
  std::unique_ptr<KvPages> kv_;
  std::unique_ptr<backend::Program> program_;
  SequenceId sequence_ = 0;
};

}  // namespace orrery::engine
