#include "engine/dequantize.hpp"

#include <vector>

#include "tensor/decode.hpp"
#include "tensor/packed.hpp"

namespace orrery::engine {

plan::Plan widen_steps(plan::Plan plan) {
  std::vector<plan::BufferId> source(plan.buffers.size());
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<plan::BufferId>(i);
  std::vector<plan::Step> steps;
  for (plan::Step step : plan.steps) {
    for (plan::BufferId& in : step.in) {
      if (in != plan::kNone) in = source[in];
    }
    if (step.op == plan::Op::quantize_rows) {
      source[step.out[0]] = step.in[0];
      continue;
    }
    step.number_class = plan::NumberClass::f32;
    steps.push_back(step);
  }
  plan.steps = std::move(steps);
  return plan;
}

Result<BoundPlan> Dequantized::widen(BoundPlan bound) {
  bound.plan = widen_steps(std::move(bound.plan));
  for (std::size_t i = 0; i < bound.plan.weights.size(); ++i) {
    plan::Weight& weight = bound.plan.weights[i];
    if (!dtype_info(weight.dtype).is_quantized) continue;
    ORRERY_TRY(bound.weights[i], decoded(weight, bound.weights[i]));
    if (weight.experts > 0) {
      for (const std::byte*& data : bound.experts[i]) {
        ORRERY_TRY(data, decoded(weight, data));
      }
    }
    weight.dtype = DType::f32;
    weight.layout = Layout::file;
  }
  return bound;
}

Result<const std::byte*> Dequantized::decoded(const plan::Weight& weight, const std::byte* data) {
  memory::Region& region = weights_[{data, weight.rows}];
  if (region.size() == 0) {
    ORRERY_TRY(region, memory::Region::map(std::uint64_t{weight.rows} * weight.cols * 4));
    auto* out = reinterpret_cast<float*>(region.data());
    const std::uint64_t stride = row_bytes(weight.dtype, weight.cols);
    std::vector<std::byte> unpacked(stride);
    for (std::uint64_t row = 0; row < weight.rows; ++row) {
      const std::byte* source = data + row * stride;
      if (weight.layout == Layout::packed) {
        const std::uint64_t lane = row % kPackedRows;
        unpack_row(weight.dtype, weight.cols, source - lane * stride, static_cast<int>(lane),
                   unpacked.data());
        source = unpacked.data();
      }
      decode_row(weight.dtype, source, out + row * weight.cols, weight.cols);
    }
  }
  return region.data();
}

std::uint64_t Dequantized::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [source, region] : weights_) bytes += region.size();
  return bytes;
}

}  // namespace orrery::engine
