// The matrices of experts: one tensor with a dimension more, or a tensor for each expert.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/check.hpp"
#include "model/tensors.hpp"

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
  return has(name) || has_own_tensors(name);
}

Result<Tensor> Tensors::experts(const std::string& name, std::uint64_t n, std::uint64_t rows,
                                std::uint64_t cols) {
  if (const auto known = resolved_.find(name); known != resolved_.end()) {
    ORRERY_CHECK(known->second.rows == rows && known->second.cols == cols);
    return known->second;
  }
  const bool stacked = !has_own_tensors(name) && !file_name(name).contains('*');
  const std::array<std::uint64_t, 4> expected = {cols, rows, stacked ? n : 1, 1};
  std::optional<Tensor> first;
  std::vector<const std::byte*> data;
  for (std::uint64_t e = 0; e < (stacked ? 1 : n); ++e) {
    const std::string own = stacked ? file_name(name) : expert_name(name, e);
    ORRERY_TRY(const TensorInfo* info, use(checkpoint_->find(own), own));
    if (info->dims != expected) {
      const std::string wanted = stacked ? fmt::format("{}, ", n) : "";
      return fail("E_SHAPE",
                  fmt::format("tensor {} has shape {}, the parameters ask for ({}{}, {})", own,
                              shape_text(*info), wanted, rows, cols));
    }
    if (first && first->dtype != info->type) {
      return fail("E_TENSOR",
                  fmt::format("tensor {} has type {}, that of the first expert is {}", own,
                              dtype_info(info->type).name, dtype_info(first->dtype).name));
    }
    if (!first) first = Tensor{info->type, rows, cols, info->data};
    data.push_back(info->data);
  }
  const std::uint64_t matrix_bytes = row_bytes(first->dtype, cols) * rows;
  while (data.size() < n) {
    data.push_back(data[0] == nullptr ? nullptr : data[0] + matrix_bytes * data.size());
  }
  experts_.emplace(name, std::move(data));
  resolved_.emplace(name, *first);
  return *first;
}

}  // namespace orrery::model
