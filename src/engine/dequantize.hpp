// A model in class f32: quantized weights decoded once, plans rewritten to read them. The fast
// oracle for what quantized kernels compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "base/result.hpp"
#include "engine/executor.hpp"
#include "memory/region.hpp"
#include "plan/plan.hpp"

namespace orrery::engine {

// Every step in class f32, operands as they are before quantize_rows. The plan has not been fused.
plan::Plan widen_steps(plan::Plan plan);

class Dequantized {
 public:
  // The plan in class f32 over decoded weights, which live as long as this object; plans that name
  // the same rows share them. E_MEMORY when they do not fit.
  Result<BoundPlan> widen(BoundPlan bound);
  std::uint64_t bytes() const;

 private:
  // (rows, cols) of one matrix of the weight.
  Result<const std::byte*> decoded(const plan::Weight& weight, const std::byte* data);

  // By the first byte and the rows of the weight in the file.
  std::map<std::pair<const std::byte*, std::uint32_t>, memory::Region> weights_;
};

}  // namespace orrery::engine
