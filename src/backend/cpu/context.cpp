#include <cstring>

#include "backend/cpu/step.hpp"
#include "base/check.hpp"
#include "tensor/decode.hpp"

namespace orrery::backend::cpu {

BufferRef CompileContext::buffer(plan::BufferId id) const {
  if (id == plan::kNone) return {};
  const plan::Buffer& buffer = plan->buffers[static_cast<std::size_t>(id)];
  BufferRef ref;
  // While sizes are measured there is no scratch yet: the address is only a number then.
  ref.data =
      reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(scratch) + buffer.offset);
  ref.cols = buffer.cols;
  ref.form = buffer.form;
  ref.blocks = blocks && buffer.rows == plan::kTokens && buffer.order == plan::Order::any;
  ref.row_bytes = plan::form_row_bytes(buffer.form, buffer.cols);
  if (solo != nullptr) ref.own = solo->own_rows[static_cast<std::size_t>(id)];
  return ref;
}

const plan::Weight& CompileContext::info(plan::WeightId id) const {
  ORRERY_CHECK(id != plan::kNone);
  return plan->weights[static_cast<std::size_t>(id)];
}

const std::byte* CompileContext::weight(plan::WeightId id) const {
  return bindings->weights[static_cast<std::size_t>(id)];
}

const float* CompileContext::vector(plan::WeightId id) const {
  if (id == plan::kNone) return nullptr;
  const plan::Weight& weight_info = info(id);
  const std::uint64_t n = std::uint64_t{weight_info.rows} * weight_info.cols;
  auto copy = std::make_unique<std::vector<float>>(n);
  decode_row(weight_info.dtype, weight(id), copy->data(), n);
  vectors->push_back(std::move(copy));
  return vectors->back()->data();
}

const RopeTable& CompileContext::rope_table(const plan::Step& step) const {
  const auto* wanted = &plan->constants[static_cast<std::size_t>(step.rope_table)];
  for (const RopeTable& table : *rope_tables) {
    if (table.frequencies == wanted && table.mscale == step.rope_mscale) return table;
  }
  ORRERY_CHECK(false);
}

Matrix CompileContext::matrix(const plan::Step& step, std::size_t i) const {
  const plan::Weight& weight_info = info(step.w[i]);
  return {weight(step.w[i]), row_bytes(weight_info.dtype, weight_info.cols), weight_info.dtype,
          weight_info.layout, vector(step.bias[i])};
}

std::vector<Matrix> CompileContext::experts(const plan::Step& step, std::size_t i) const {
  const Matrix first = matrix(step, i);  // its bias is that of all experts, one after the other
  std::vector<Matrix> matrices;
  for (const std::byte* data : bindings->experts[static_cast<std::size_t>(step.w[i])]) {
    matrices.push_back(first);
    matrices.back().data = data;
    if (first.bias != nullptr) matrices.back().bias += info(step.w[i]).rows * (matrices.size() - 1);
  }
  return matrices;
}

std::string CompileContext::kernel_label(bool block_kernel, std::string_view what,
                                         plan::WeightId id) const {
  std::string label = block_kernel ? kernels->blocks->isa : kernels->rows->isa;
  label += '/';
  label += what;
  if (id != plan::kNone) {
    label += '<';
    label += dtype_info(info(id).dtype).name;
    if (info(id).layout == Layout::packed) label += " packed";
    label += '>';
  }
  return label;
}

void store_q8(const kernels::RowKernels& kernels, const float* x, std::uint32_t begin,
              std::uint32_t n, std::byte* row, std::uint32_t cols, std::byte* temporary) {
  const kernels::Q8Layout to = kernels::q8_layout(cols);
  const kernels::Q8Layout from = kernels::q8_layout(n);
  kernels.quantize_q8(x, static_cast<int>(n), temporary);
  std::memcpy(row + begin, temporary, n);
  std::memcpy(row + to.d_offset + begin / 8, temporary + from.d_offset, n / 8);
  std::memcpy(row + to.sums_offset + begin / 8, temporary + from.sums_offset, n / 8);
}

kernels::ActivationKind activation_kind(plan::Activation activation) {
  switch (activation) {
    case plan::Activation::none:
      return kernels::ActivationKind::none;
    case plan::Activation::silu:
      return kernels::ActivationKind::silu;
    case plan::Activation::gelu_tanh:
      return kernels::ActivationKind::gelu_tanh;
    case plan::Activation::gelu_erf:
      return kernels::ActivationKind::gelu_erf;
    case plan::Activation::sigmoid:
      return kernels::ActivationKind::sigmoid;
    case plan::Activation::swiglu_clamped:
      return kernels::ActivationKind::swiglu_clamped;
  }
  ORRERY_CHECK(false);
}

}  // namespace orrery::backend::cpu
