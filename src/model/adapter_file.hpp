// A LoRA adapter as its file has it: pairs of tensors, without a look at a model.
//
// GGUF: general.type "adapter", tensors NAME.lora_a and NAME.lora_b. PEFT: a folder with
// adapter_config.json and adapter_model.safetensors, tensors MODULE.lora_A.weight and .lora_B.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::model {

// y = W x + scale * B (A x) for one matrix W (rows, cols).
struct AdapterTensors {
  std::string target;  // "blk.0.attn_q.weight", or a module: "model.layers.0.self_attn.q_proj"
  const storage::TensorInfo* a = nullptr;  // (rank, cols)
  const storage::TensorInfo* b = nullptr;  // (rows, rank)
  float scale = 1.0F;                      // alpha / rank, or by the square root of the rank

  std::uint64_t rank() const { return a->dims[1]; }
};

struct AdapterFile {
  std::shared_ptr<const storage::Checkpoint> checkpoint;
  std::string architecture;             // general.architecture of GGUF
  std::string base;                     // the model that it was made for, where the file says it
  std::vector<AdapterTensors> tensors;  // in order of their targets
};

// Whether a path is an adapter and no model: a folder with adapter_config.json, its tensors, or a
// GGUF file that says so.
bool is_adapter(const std::string& path, storage::Io& io);

// Errors: those of Checkpoint::open; E_ADAPTER for what is no LoRA, for kinds of it that are not
// supported, and for pairs that are incomplete or do not fit together.
Result<AdapterFile> open_adapter_file(const std::string& path, storage::Io& io);

}  // namespace orrery::model
