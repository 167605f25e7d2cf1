// The matrices of experts: one tensor with a dimension more, or a tensor for each expert.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "model/tensors.hpp"
#include "tensor/decode.hpp"

namespace orrery::model {

using storage::TensorInfo;

// Most safetensors and GGUF files of 2023 have a tensor for each expert:
// model.layers.0.mlp.experts.7.gate_proj.weight, blk.0.ffn_gate.7.weight.
std::string Tensors::expert_name(const std::string& name, std::uint64_t expert) const {
  std::string own = file_name(name);
  constexpr std::string_view kStack = "_exps.";
  const std::size_t ending = own.find(kStack);
  if (stems_.empty() && ending != std::string::npos) own.replace(ending, kStack.size(), ".*.");
  const std::size_t star = own.find('*');
  return star == std::string::npos ? "" : own.replace(star, 1, std::to_string(expert));
}

bool Tensors::has_own_tensors(const std::string& name) const {
  const std::string first = expert_name(name, 0);
  return !first.empty() && checkpoint_->find(first) != nullptr;
}

bool Tensors::has_experts(const std::string& name) const {
  return has(name) || has_own_tensors(name) || has_blocks(name);
}

// Where gate and up stand by turns, those of gate come first here.
std::uint64_t Tensors::row_in_file(const std::string& name, std::uint64_t r,
                                   std::uint64_t rows) const {
  if (expert_layout_ != ExpertLayout::alternate || !name.contains("gate_up")) return r;
  return r < rows / 2 ? 2 * r : 2 * (r - rows / 2) + 1;
}

Result<Tensor> Tensors::experts(const std::string& name, std::uint64_t n, std::uint64_t rows,
                                std::uint64_t cols) {
  if (const auto known = resolved_.find(name); known != resolved_.end()) {
    ORRERY_CHECK(known->second.rows == rows && known->second.cols == cols);
    return known->second;
  }
  if (has_blocks(name)) return experts_of_blocks(name, n, rows, cols);
  const bool stacked = !has_own_tensors(name) && !file_name(name).contains('*');
  const bool flat = expert_layout_ == ExpertLayout::flat;
  const bool turned = flat ? name.contains("down") : expert_layout_ != ExpertLayout::rows;
  std::array<std::uint64_t, 4> expected = {cols, rows, stacked ? n : 1, 1};
  if (turned) std::swap(expected[0], expected[1]);
  if (flat) expected = {expected[0], n * expected[1], 1, 1};
  std::optional<Tensor> first;
  std::vector<const std::byte*> data;
  for (std::uint64_t e = 0; e < (stacked ? 1 : n); ++e) {
    const std::string own = stacked ? file_name(name) : expert_name(name, e);
    ORRERY_TRY(const TensorInfo* info, use(checkpoint_->find(own), own));
    if (info->dims != expected) {
      const std::string wanted = stacked && !flat ? fmt::format("{}, ", n) : "";
      return fail("E_SHAPE",
                  fmt::format("tensor {} has shape {}, the parameters ask for ({}{}, {})", own,
                              shape_text(*info), wanted, expected[1], expected[0]));
    }
    if (first && first->dtype != info->type) {
      return fail("E_TENSOR",
                  fmt::format("tensor {} has type {}, that of the first expert is {}", own,
                              dtype_info(info->type).name, dtype_info(first->dtype).name));
    }
    if (!first) first = Tensor{info->type, rows, cols, info->data};
    data.push_back(info->data);
    if (turned) {
      ORRERY_TRY(data.back(), copy_columns(*info, name, n, rows, cols));
    }
  }
  first->data = data[0];
  const std::uint64_t matrix_bytes = row_bytes(first->dtype, cols) * rows;
  while (data.size() < n) {
    data.push_back(data[0] == nullptr ? nullptr : data[0] + matrix_bytes * data.size());
  }
  experts_.emplace(name, std::move(data));
  resolved_.emplace(name, *first);
  return *first;
}

// Columns become rows.
Result<const std::byte*> Tensors::copy_columns(const TensorInfo& info, const std::string& name,
                                               std::uint64_t n, std::uint64_t rows,
                                               std::uint64_t cols) {
  const DTypeInfo& type = dtype_info(info.type);
  if (type.block_len != 1) {
    return fail("E_TENSOR",
                fmt::format("tensor {} of type {} is stored transposed", info.name, type.name));
  }
  if (info.data == nullptr) return nullptr;
  const std::uint64_t size = type.block_bytes;
  std::byte* const copy = own(info.bytes);
  std::byte* to = copy;
  for (std::uint64_t e = 0; e < n; ++e) {
    const std::byte* expert = info.data + e * rows * cols * size;
    for (std::uint64_t r = 0; r < rows; ++r) {
      const std::uint64_t column = row_in_file(name, r, rows);
      for (std::uint64_t c = 0; c < cols; ++c, to += size) {
        std::memcpy(to, expert + (c * rows + column) * size, size);
      }
    }
  }
  return copy;
}

Result<Tensor> Tensors::expert_bias(const std::string& name, std::uint64_t n, std::uint64_t rows) {
  if (const auto known = resolved_.find(name); known != resolved_.end()) return known->second;
  const bool alternate = expert_layout_ == ExpertLayout::alternate && !name.contains("down");
  const std::uint64_t step = alternate ? 2 : 1, first = name.contains("up") ? step - 1 : 0;
  ORRERY_TRY(const TensorInfo* info, require(name));
  const std::array<std::uint64_t, 4> expected = {rows * step, n, 1, 1};
  if (info->dims != expected) {
    return fail("E_SHAPE", fmt::format("tensor {} has shape {}, the parameters ask for ({}, {})",
                                       info->name, shape_text(*info), n, expected[0]));
  }
  if (dtype_info(info->type).is_quantized) {
    return fail("E_TENSOR", fmt::format("tensor {} has type {}, biases are expected in F32, F16 or "
                                        "BF16",
                                        info->name, dtype_info(info->type).name));
  }
  Tensor tensor{DType::f32, n, rows, nullptr};
  if (info->data != nullptr) {
    std::vector<float> all(info->n_elements());
    decode_row(info->type, info->data, all.data(), all.size());
    std::byte* copy = own(n * rows * sizeof(float));
    for (std::uint64_t i = 0; i < n * rows; ++i) {
      std::memcpy(copy + i * sizeof(float), &all[i * step + first], sizeof(float));
    }
    tensor.data = copy;
  }
  resolved_.emplace(name, tensor);
  return tensor;
}

}  // namespace orrery::model
