// The tensors of a checkpoint under GGUF's names, checked for type and shape when first asked for.
// Matrices are used in place. Norms and biases are given as f32 and GPT-2's transposed matrices the
// usual way round: those that the file holds otherwise are copied, once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::model {

// A stem of GGUF ("attn_q") and of safetensors ("self_attn.q_proj"), or whole names where the
// endings differ too. A star stands for the number
// of an expert, where each has a tensor of its own.
struct NamePair {
  std::string_view gguf, safetensors;
};

struct Tensor {
  DType dtype = DType::f32;
  std::uint64_t rows = 0, cols = 0;  // cols contiguous; vectors have one row
  const std::byte* data = nullptr;   // null in a checkpoint without tensor data
  Layout layout = Layout::file;      // of matrices
};

// How safetensors store the matrices of experts, (rows, cols) each.
//   rows:      (n, rows, cols), or a tensor for each expert.
//   columns:   (n, cols, rows); a joint one has the columns of gate and then those of up.
//   alternate: the same with those of gate and up by turns, or blocks of MXFP4 (gpt-oss).
//   flat:      (n * rows, cols), but the last product's (n * cols, rows) (Nomic).
enum class ExpertLayout : std::uint8_t { rows, columns, alternate, flat };

// "(512, 128)", rows first.
std::string shape_text(const storage::TensorInfo& info);

class Tensors {
 public:
  // `names` are the stems that differ from what most families call them; `transposed`: matrices of
  // safetensors are stored (in, out), GPT-2's Conv1D.
  Tensors(std::shared_ptr<const storage::Checkpoint> checkpoint, std::span<const NamePair> names,
          bool transposed);

  bool has(const std::string& name) const { return locate(name) != nullptr; }
  // What files put before the names of a model's tensors.
  static std::span<const std::string_view> prefixes();
  // GGUF's name as the file spells it.
  std::string file_name(const std::string& name) const;
  // The shape of a matrix as the file has it, nothing when absent.
  std::optional<Tensor> peek(const std::string& name) const;
  // E_TENSOR when absent or of a type that cannot be multiplied, E_SHAPE with both shapes.
  Result<Tensor> matrix(const std::string& name, std::uint64_t rows, std::uint64_t cols);
  // The same for an embedding, which GPT-2 does not transpose either.
  Result<Tensor> table(const std::string& name, std::uint64_t rows, std::uint64_t cols);
  // A matrix for each of n heads in one tensor (n, rows, cols): n * rows rows.
  Result<Tensor> stack(const std::string& name, std::uint64_t n, std::uint64_t rows,
                       std::uint64_t cols);
  Result<Tensor> vector(const std::string& name, std::uint64_t n);
  // n numbers in whatever shape.
  Result<Tensor> series(const std::string& name, std::uint64_t n);
  // The exponents of a decay, -e^x of what safetensors holds.
  Result<Tensor> decay(const std::string& name, std::uint64_t n);
  // A filter for each channel: (channels, taps) as f32.
  Result<Tensor> filters(const std::string& name, std::uint64_t channels, std::uint64_t taps);
  Result<std::vector<float>> floats(const std::string& name, std::uint64_t n);
  // A matrix for each of n experts: one tensor (n, rows, cols), n tensors of one type, or one of
  // blocks and one of scales.
  bool has_experts(const std::string& name) const;
  Result<Tensor> experts(const std::string& name, std::uint64_t n, std::uint64_t rows,
                         std::uint64_t cols);
  // (n, rows) of f32: a bias for each expert.
  Result<Tensor> expert_bias(const std::string& name, std::uint64_t n, std::uint64_t rows);
  // Of safetensors; GGUF has rows.
  void set_expert_layout(ExpertLayout layout) {
    if (!stems_.empty()) expert_layout_ = layout;
  }
  // Data of a tensor that was resolved before; null when the checkpoint has no data.
  const std::byte* data(const std::string& name) const;
  // The same of each expert of a tensor that experts() resolved.
  bool is_experts(const std::string& name) const { return experts_.contains(name); }
  std::span<const std::byte* const> expert_data(const std::string& name) const;

  // All that were resolved, by GGUF's names.
  const std::map<std::string, Tensor, std::less<>>& resolved() const { return resolved_; }

  // Treats a tensor as absent.
  void hide(const std::string& name);
  // The same for all tensors of a layer.
  void hide_layer(std::uint32_t layer);
  // Names, as in the file, of tensors that were asked for and are not there.
  const std::set<std::string>& missing() const { return missing_; }
  // Those of the file that nobody asked for, unless their names begin with one of `ignored`.
  std::vector<std::string_view> unused(std::span<const std::string_view> ignored) const;
  // E_TENSOR names a tensor of the file that nobody asked for, unless its name begins with one of
  // `ignored`.
  Status check_all_used(std::string_view family, std::span<const std::string_view> ignored) const;
  std::uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  const storage::TensorInfo* locate(const std::string& name) const;
  // E_TENSOR also for a packed one, unless the caller takes those.
  Result<const storage::TensorInfo*> require(const std::string& name, bool takes_packed = false);
  // Marks a tensor as used; E_TENSOR when `info` is null or of a type that cannot be multiplied.
  Result<const storage::TensorInfo*> use(const storage::TensorInfo* info,
                                         const std::string& file_name, bool takes_packed = false);
  // The name of an expert's own tensor, empty where the format has none.
  std::string expert_name(const std::string& name, std::uint64_t expert) const;
  bool has_own_tensors(const std::string& name) const;
  std::uint64_t row_in_file(const std::string& name, std::uint64_t r, std::uint64_t rows) const;
  bool has_blocks(const std::string& name) const;
  Result<const storage::TensorInfo*> bytes(const std::string& file_name,
                                           const std::array<std::uint64_t, 4>& dims);
  Result<Tensor> experts_of_blocks(const std::string& name, std::uint64_t n, std::uint64_t rows,
                                   std::uint64_t cols);
  Result<const std::byte*> copy_columns(const storage::TensorInfo& info, const std::string& name,
                                        std::uint64_t n, std::uint64_t rows, std::uint64_t cols);
  Result<Tensor> resolve(const std::string& name, std::uint64_t rows, std::uint64_t cols,
                         bool transposed);
  Result<Tensor> keep_floats(const std::string& name, const storage::TensorInfo& info,
                             std::uint64_t rows, std::uint64_t cols);
  std::byte* own(std::uint64_t bytes);

  std::shared_ptr<const storage::Checkpoint> checkpoint_;
  std::map<std::string_view, std::string_view> stems_;  // of safetensors, empty for GGUF
  std::string prefix_;                                  // of safetensors: "model."
  bool transposed_ = false;
  ExpertLayout expert_layout_ = ExpertLayout::rows;
  std::map<std::string, Tensor, std::less<>> resolved_;
  std::map<std::string, std::vector<const std::byte*>, std::less<>> experts_;  // also in resolved_
  std::set<std::string_view> used_, hidden_;                                   // names in the file
  std::set<std::string> missing_;
  std::vector<std::unique_ptr<std::byte[]>> owned_;
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace orrery::model
