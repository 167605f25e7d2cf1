// The table of model families: what a file calls them, how their parameters are read, and their
// forward pass. A family is one file in families/.
#pragma once

#include <span>
#include <string_view>

#include "base/result.hpp"
#include "model/hparams.hpp"
#include "model/recorder.hpp"
#include "model/source.hpp"
#include "model/tensors.hpp"

namespace orrery::model {

// Names of the parameters that every family has.
struct CommonKeys {
  Key n_layers{"block_count", "num_hidden_layers"};
  Key hidden_dim{"embedding_length", "hidden_size"};
  Key n_heads{"attention.head_count", "num_attention_heads"};
  Key n_kv_heads{"attention.head_count_kv", "num_key_value_heads"};
  Key head_dim{"attention.key_length", "head_dim"};
  Key v_head_dim{"attention.value_length", ""};
  Key ffn_dim{"feed_forward_length", "intermediate_size"};
  Key context_length{"context_length", "max_position_embeddings"};
  Key norm_eps{"attention.layer_norm_rms_epsilon", "rms_norm_eps"};
};

// What config.json may leave out because transformers has it as a default; 0: it must be there.
struct ConfigDefaults {
  std::uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0, context_length = 0;
};

struct Family {
  std::string_view name{};
  std::span<const std::string_view> gguf{};    // values of general.architecture
  std::span<const std::string_view> config{};  // values of model_type in config.json
  // Where another family has the same model_type: whether a config.json is of this one.
  bool (*owns)(const Source& source) = nullptr;
  CommonKeys keys{};
  ConfigDefaults defaults{};
  std::span<const NamePair> tensor_names{};  // that differ from the usual ones in safetensors
  bool attends = true;                       // false: no heads and no feed-forward to read
  bool transposed = false;                   // matrices of safetensors are (in, out)
  ExpertLayout expert_layout = ExpertLayout::rows;
  bool own_heads = false;  // read() finds the sizes of a head
  // Beginnings of the names of tensors that the forward pass does without.
  std::span<const std::string_view> ignored{};
  // What the family adds to the common parameters; E_HPARAM.
  Status (*read)(const Source& source, Hparams& hparams) = nullptr;
  // What only the tensors tell; null: nothing. E_HPARAM.
  Status (*settle)(const Source& source, Tensors& tensors, Hparams& hparams) = nullptr;
  void (*forward)(Recorder& r) = nullptr;
};

// All families; each is defined in families/NAME.cpp.
std::span<const Family* const> families();

// Reads all parameters of a checkpoint as those of this family. Errors as load_model.
Status read_parameters(const storage::Checkpoint& checkpoint, Source& source, const Family& family,
                       Tensors& tensors, Hparams& hparams);

// Reads the parameters that every family has, with rope left to the family.
Status read_common(const Source& source, const Family& family, Hparams& hparams);

// Reads hidden_act of config.json (as `key` names it); GGUF leaves it to the family.
Status read_activation(const Source& source, Key key, Hparams& hparams);

// Which layers see only a window. `period` p: every p-th layer sees all, where the file does not
// say (0: none does); `only_if_used`: windows count only with use_sliding_window in config.json.
struct WindowRule {
  std::uint32_t period = 0;
  bool only_if_used = false;
};
Status read_windows(const Source& source, const WindowRule& rule, Hparams& hparams);

// What a family takes for granted about its experts, where the file does not say.
struct ExpertDefaults {
  plan::Gate gate = plan::Gate::softmax;
  bool renormalise = false;
  // Files of the family that name no gating function may have either: what is assumed, and why.
  std::string_view gate_note{};
};
// Counts, widths, gate, weights, groups and the layers that have experts. No experts, no error:
// count is 0. E_HPARAM.
Status read_experts(const Source& source, const ExpertDefaults& defaults, Hparams& hparams);

}  // namespace orrery::model
