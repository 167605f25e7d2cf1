// A model: family, parameters, and the plans of its forward pass bound to the bytes of its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/hparams.hpp"
#include "plan/plan.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::model {

class Tensors;
struct Family;

struct RecordOptions {
  plan::Phase phase = plan::Phase::decode;
  plan::Capacity capacity;
  bool deterministic = false;      // prefill with decode's number classes
  bool experts_as_decode = false;  // those of quantized experts alone
  // Tokens a sequence may grow to, at most hparams().context_length unless the user insists.
  // Decides between the long and the short factors of longrope; windows it cannot fill become full
  // attention.
  std::uint32_t context_length = 0;
  DType k_type = DType::f16, v_type = DType::f16;  // of the cache (cache_page.hpp)
  std::optional<plan::PoolKind> pooling = {};      // phase embed; else as the file says
};

class LoadedModel {
 public:
  const Hparams& hparams() const { return hparams_; }
  const storage::Checkpoint& checkpoint() const { return *checkpoint_; }

  // The forward pass of a phase, unfused and with taps; embed ends with the vector of the text (1,
  // embedding_dim). A model that is not causal has no other phase. Every phase lists the same cache
  // groups in the same order. Not for several threads at once.
  Result<plan::Plan> record(const RecordOptions& options) const;

  // The first byte of every weight of a plan that record() made, in its order. The pointers live as
  // long as this model. E_NODATA for a checkpoint that was opened without tensor data.
  Result<std::vector<const std::byte*>> bind(const plan::Plan& plan) const;
  // The same of each expert, for the weights that are experts'; nothing for the others.
  std::vector<std::vector<const std::byte*>> bind_experts(const plan::Plan& plan) const;

  const Family& family() const { return *family_; }
  // Under GGUF's names, as the forward pass asked for them.
  const Tensors& tensors() const { return *tensors_; }

  // Bytes that were converted and not used in place: norms and biases to f32, transposed matrices.
  std::uint64_t copied_bytes() const;

 private:
  friend Result<LoadedModel> load_model(std::shared_ptr<const storage::Checkpoint> checkpoint);
  LoadedModel() = default;
  static Result<LoadedModel> load(std::shared_ptr<const storage::Checkpoint> checkpoint);

  std::shared_ptr<const storage::Checkpoint> checkpoint_;
  const Family* family_ = nullptr;
  Hparams hparams_;
  std::shared_ptr<Tensors> tensors_;
};

// Finds the family, reads and checks its parameters, and checks every tensor's name, type and
// shape. Errors: E_ARCH (unknown architecture), E_HPARAM (a parameter that is missing, of the wrong
// type or out of bounds), E_TENSOR (missing, unknown, wrong type), E_SHAPE (both shapes are
// printed).
Result<LoadedModel> load_model(std::shared_ptr<const storage::Checkpoint> checkpoint);

// The architectures that load_model knows, as files name them: "llama, qwen2, ...".
std::string supported_architectures();

}  // namespace orrery::model
