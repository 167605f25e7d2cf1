// A LoRA adapter fitted to a model: its numbers as f32, under the names of the model's tensors and
// in the order of their rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/adapter_file.hpp"
#include "model/model.hpp"
#include "plan/plan.hpp"

namespace orrery::model {

// y = W x + B (A x) for one matrix W (rows, cols); the file's own scale is in B.
struct AdapterPair {
  std::string tensor;  // GGUF's name, as in plan::Weight
  std::uint32_t rank = 0, rows = 0, cols = 0;
  std::vector<float> a;  // (rank, cols)
  std::vector<float> b;  // (rank, rows): the columns of B
};

struct Adapter {
  std::vector<AdapterPair> pairs;
  std::uint64_t bytes() const;
};

// `plan`: one that the model recorded; its steps say which tensors are products. An adapter of one
// format fits a model of the other where both store the same rows, or rotary pairs in another
// order. Errors: E_ADAPTER for another architecture, a tensor that the model has not or that is no
// plain product, shapes that differ (both are printed), and numbers that are not finite.
Result<Adapter> fit_adapter(const AdapterFile& file, const LoadedModel& model,
                            const plan::Plan& plan);

}  // namespace orrery::model
