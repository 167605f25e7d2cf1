// Vectors of texts: the forward pass that ends with one row instead of logits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/executor.hpp"

namespace orrery::engine {

struct EmbedOptions {
  bool normalize = true;         // to length 1
  std::uint32_t dimensions = 0;  // the first so many elements, normalised after the cut; 0: all
  std::size_t second = 0;        // where the second text of a pair begins; 0: there is none
};

class Embedder {
 public:
  // `bound` is recorded in phase embed; its capacity is the longest text, or a slice of it where
  // slices can be pooled (`last` of a causal model). The cache is its own, for one sequence.
  static Result<std::unique_ptr<Embedder>> create(BoundPlan bound, backend::Backend& backend,
                                                  std::uint32_t context, std::uint64_t budget);

  // E_CONTEXT when there are more tokens than the context, E_TOKENS when there are none, E_RANGE
  // for more dimensions than the vector has, E_NAN when it is not finite. The backend's threads
  // must be free: hold Model's turn. `between` is called between parts of the work, each of which
  // takes about what kPartTokens tokens take: others may run then, but not this.
  Result<std::vector<float>> embed(std::span<const text::TokenId> ids, const EmbedOptions& options,
                                   const std::function<void()>& between = {});
  static constexpr std::uint32_t kPartTokens = 64;

  const plan::Plan& plan() const { return plan_; }  // as it is run
  const backend::Program& program() const { return *program_; }

 private:
  Embedder() = default;
  Status run_slice(std::span<const text::TokenId> ids, std::uint32_t start, std::size_t second,
                   const std::function<void()>& between);

  plan::Plan plan_;
  std::unique_ptr<KvPages> kv_;
  std::unique_ptr<backend::Program> program_;
  SequenceId sequence_ = 0;
  std::uint32_t context_ = 0;
  std::vector<std::int32_t> positions_, row_sequence_, types_;  // (capacity)
  std::vector<const std::int32_t*> tables_;
};

}  // namespace orrery::engine
