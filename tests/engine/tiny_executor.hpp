// An executor over a tiny model of tests/support, on any backend.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/executor.hpp"
#include "support/random_blocks.hpp"
#include "support/tiny_llama.hpp"

namespace orrery::engine {

template <class Shape>
class TinyModelOf {
 public:
  TinyModelOf(Shape shape, bool deterministic) : shape_(shape), deterministic_(deterministic) {}

  BoundPlan record(plan::Phase phase, plan::Capacity capacity) {
    BoundPlan bound{shape_.record(phase, capacity, deterministic_), {}, {}};
    for (const plan::Weight& w : bound.plan.weights) {
      std::vector<std::byte>& bytes = weights_[w.tensor];
      if (bytes.empty()) {
        std::mt19937 rng(static_cast<std::uint32_t>(weights_.size()));
        const float size = w.rows == 1 ? 1.0F : 2.0F / std::sqrt(static_cast<float>(w.cols));
        bytes = test::random_weights(w.dtype, w.rows * std::max(1U, w.experts), w.cols, size, rng);
        test::fit_to_name(w.tensor, bytes);
      }
      bound.weights.push_back(bytes.data());
      bound.experts.emplace_back();
      for (std::uint32_t e = 0; e < w.experts; ++e) {
        bound.experts.back().push_back(bytes.data() + w.bytes() / w.experts * e);
      }
    }
    return bound;
  }

  std::shared_ptr<Executor> make(backend::Backend& backend, std::uint32_t context,
                                 std::uint32_t sequences, std::uint32_t slice) {
    auto executor = Executor::create(
        record(plan::Phase::decode, {8, 8, 8}), record(plan::Phase::prefill, {slice, 1, 4}),
        backend,
        {.sequences = sequences, .context = context, .slice = 0, .budget_bytes = 64U << 20});
    if (!executor) std::abort();
    return std::move(*executor);
  }

 private:
  Shape shape_;
  bool deterministic_;
  std::map<std::string, std::vector<std::byte>> weights_;
};
using TinyModel = TinyModelOf<test::TinyLlama>;

}  // namespace orrery::engine
