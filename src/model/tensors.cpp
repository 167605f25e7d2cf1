#include "model/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "tensor/decode.hpp"

namespace orrery::model {
namespace {

using storage::TensorInfo;

// What most families call their tensors.
constexpr NamePair kUsualNames[] = {
    {"token_embd", "embed_tokens"},
    {"output_norm", "norm"},
    {"output", "lm_head"},
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj"},
    {"ffn_up_exps", "mlp.experts.*.up_proj"},
    {"ffn_down_exps", "mlp.experts.*.down_proj"},
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
};

// Language models inside models that also see carry a longer prefix.
constexpr std::string_view kPrefixes[] = {"model.",
                                          "language_model.model.",
                                          "model.language_model.",
                                          "transformer.",
                                          "backbone.",
                                          "",
                                          "bert.",
                                          "roberta."};

// Tensors that the forward pass computes by itself, and those of other senses.
constexpr std::string_view kIgnoredEndings[] = {"rotary_emb.inv_freq", "attn_rot_embd.weight",
                                                ".attn.bias", ".attn.masked_bias",
                                                "embeddings.position_ids"};
constexpr std::string_view kIgnoredBeginnings[] = {"vision_tower.", "multi_modal_projector.",
                                                   "model.vision_tower.",
                                                   "model.multi_modal_projector."};

std::string supported_types() {
  std::string text;
  for (std::uint32_t id = 0; id < 256; ++id) {
    const std::optional<DType> type = dtype_from_id(id);
    if (!type || !is_decodable(*type)) continue;
    text += (text.empty() ? "" : ", ") + std::string(dtype_info(*type).name);
  }
  return text;
}

}  // namespace

std::string shape_text(const TensorInfo& info) {
  std::string text;
  for (std::uint32_t i = info.n_dims; i-- > 0;) {
    text += fmt::format("{}{}", info.dims[i], i > 0 ? ", " : "");
  }
  return "(" + text + ")";
}

Tensors::Tensors(std::shared_ptr<const storage::Checkpoint> checkpoint,
                 std::span<const NamePair> names, bool transposed)
    : checkpoint_(std::move(checkpoint)) {
  if (checkpoint_->format() == storage::Format::gguf) return;
  transposed_ = transposed;
  for (const NamePair& pair : kUsualNames) stems_[pair.gguf] = pair.safetensors;
  for (const NamePair& pair : names) stems_[pair.gguf] = pair.safetensors;
  for (const std::string_view prefix : kPrefixes) {
    prefix_ = prefix;
    if (has("token_embd.weight")) return;
  }
  prefix_ = kPrefixes[0];  // for the message that says what is missing
}

std::span<const std::string_view> Tensors::prefixes() {
  return kPrefixes;
}

// GGUF's "blk.3.attn_q.weight" as the file spells it: "model.layers.3.self_attn.q_proj.weight".
std::string Tensors::file_name(const std::string& name) const {
  if (stems_.empty() || name.find('/') != std::string::npos) return name;  // a file of its own
  std::string_view rest = name;
  std::string layer;
  if (rest.starts_with("blk.")) {
    const std::size_t dot = rest.find('.', 4);
    const auto layers = stems_.find("blk");
    layer = fmt::format("{}.{}.", layers == stems_.end() ? "layers" : layers->second,
                        rest.substr(4, dot - 4));
    rest.remove_prefix(dot + 1);
  }
  if (const auto whole = stems_.find(rest); whole != stems_.end()) {
    return fmt::format("{}{}{}", prefix_, layer, whole->second);
  }
  const std::size_t dot = rest.rfind('.');
  const auto stem = stems_.find(rest.substr(0, dot));
  const std::string_view known = stem == stems_.end() ? rest.substr(0, dot) : stem->second;
  std::string prefix = prefix_;
  if (known == "lm_head") prefix = prefix_ == "language_model.model." ? "language_model." : "";
  if (known.starts_with("classifier")) prefix.clear();
  return fmt::format("{}{}{}{}", prefix, layer, known, rest.substr(dot));
}

const TensorInfo* Tensors::locate(const std::string& name) const {
  const TensorInfo* info = checkpoint_->find(file_name(name));
  return info == nullptr || hidden_.contains(info->name) ? nullptr : info;
}

std::optional<Tensor> Tensors::peek(const std::string& name) const {
  const TensorInfo* info = locate(name);
  if (info == nullptr || info->n_dims > 2) return std::nullopt;
  return Tensor{info->type, info->dims[1], info->dims[0], info->data};
}

Result<const TensorInfo*> Tensors::require(const std::string& name, bool takes_packed) {
  return use(locate(name), file_name(name), takes_packed);
}

Result<const TensorInfo*> Tensors::use(const TensorInfo* info, const std::string& file_name,
                                       bool takes_packed) {
  if (info == nullptr) {
    missing_.insert(file_name);
    return fail("E_TENSOR", fmt::format("tensor {} is missing", file_name));
  }
  used_.insert(info->name);
  if (!is_decodable(info->type)) {
    return fail("E_TENSOR",
                fmt::format("tensor {} has type {}, supported weights are {}", info->name,
                            dtype_info(info->type).name, supported_types()));
  }
  if (info->layout == Layout::packed && !takes_packed) {
    return fail("E_TENSOR",
                fmt::format("tensor {} is packed, which it cannot be here", info->name));
  }
  return info;
}

std::byte* Tensors::own(std::uint64_t bytes) {
  owned_.push_back(std::make_unique<std::byte[]>(bytes));
  copied_bytes_ += bytes;
  return owned_.back().get();
}

Result<Tensor> Tensors::resolve(const std::string& name, std::uint64_t rows, std::uint64_t cols,
                                bool transposed) {
  if (const auto known = resolved_.find(name); known != resolved_.end()) {
    ORRERY_CHECK(known->second.rows == rows && known->second.cols == cols);
    return known->second;
  }
  ORRERY_TRY(const TensorInfo* info, require(name, !transposed));
  const std::array<std::uint64_t, 4> expected =
      transposed ? std::array<std::uint64_t, 4>{rows, cols, 1, 1}
                 : std::array<std::uint64_t, 4>{cols, rows, 1, 1};
  if (info->dims != expected) {
    return fail("E_SHAPE", fmt::format("tensor {} has shape {}, the parameters ask for ({}, {})",
                                       info->name, shape_text(*info), expected[1], expected[0]));
  }
  Tensor tensor{info->type, rows, cols, info->data, info->layout};
  if (transposed && info->data != nullptr) {
    const DTypeInfo& type = dtype_info(info->type);
    if (type.block_len != 1) {
      return fail("E_TENSOR",
                  fmt::format("tensor {} of type {} is stored transposed", info->name, type.name));
    }
    std::byte* copy = own(info->bytes);
    tensor.data = copy;
    const std::uint64_t size = type.block_bytes;
    for (std::uint64_t r = 0; r < rows; ++r) {
      for (std::uint64_t c = 0; c < cols; ++c, copy += size) {
        std::memcpy(copy, info->data + (c * rows + r) * size, size);
      }
    }
  }
  resolved_.emplace(name, tensor);
  return tensor;
}

Result<Tensor> Tensors::matrix(const std::string& name, std::uint64_t rows, std::uint64_t cols) {
  return resolve(name, rows, cols, transposed_);
}

Result<Tensor> Tensors::table(const std::string& name, std::uint64_t rows, std::uint64_t cols) {
  return resolve(name, rows, cols, false);
}

Result<Tensor> Tensors::stack(const std::string& name, std::uint64_t n, std::uint64_t rows,
                              std::uint64_t cols) {
  if (const auto known = resolved_.find(name); known != resolved_.end()) {
    ORRERY_CHECK(known->second.rows == n * rows && known->second.cols == cols);
    return known->second;
  }
  ORRERY_TRY(const TensorInfo* info, require(name));
  if (info->dims != std::array<std::uint64_t, 4>{cols, rows, n, 1}) {
    return fail("E_SHAPE",
                fmt::format("tensor {} has shape {}, the parameters ask for ({}, {}, {})",
                            info->name, shape_text(*info), n, rows, cols));
  }
  return resolved_.emplace(name, Tensor{info->type, n * rows, cols, info->data}).first->second;
}

Result<Tensor> Tensors::vector(const std::string& name, std::uint64_t n) {
  if (const auto known = resolved_.find(name); known != resolved_.end()) {
    ORRERY_CHECK(known->second.cols == n);
    return known->second;
  }
  ORRERY_TRY(const TensorInfo* info, require(name));
  if (info->n_elements() != n || info->dims[0] != n) {
    return fail("E_SHAPE", fmt::format("tensor {} has shape {}, the parameters ask for ({})",
                                       info->name, shape_text(*info), n));
  }
  return keep_floats(name, *info, 1, n);
}

Result<Tensor> Tensors::series(const std::string& name, std::uint64_t n) {
  if (const auto known = resolved_.find(name); known != resolved_.end()) return known->second;
  ORRERY_TRY(const TensorInfo* info, require(name));
  if (info->n_elements() != n) {
    return fail("E_SHAPE", fmt::format("tensor {} has shape {}, the parameters ask for {} elements",
                                       info->name, shape_text(*info), n));
  }
  return keep_floats(name, *info, 1, n);
}

Result<Tensor> Tensors::decay(const std::string& name, std::uint64_t n) {
  const bool is_new = !resolved_.contains(name);
  ORRERY_TRY(const Tensor tensor, series(name, n));
  if (!is_new || stems_.empty() || tensor.data == nullptr) return tensor;
  std::byte* copy = own(n * sizeof(float));
  std::memcpy(copy, tensor.data, n * sizeof(float));
  auto* values = reinterpret_cast<float*>(copy);
  for (std::uint64_t i = 0; i < n; ++i) values[i] = -std::exp(values[i]);
  return resolved_.find(name)->second = Tensor{DType::f32, 1, n, copy};
}

Result<Tensor> Tensors::filters(const std::string& name, std::uint64_t channels,
                                std::uint64_t taps) {
  if (const auto known = resolved_.find(name); known != resolved_.end()) return known->second;
  ORRERY_TRY(const TensorInfo* info, require(name));
  if (info->n_elements() != channels * taps || info->dims[0] != taps) {
    return fail("E_SHAPE",
                fmt::format("tensor {} has shape {}, the parameters ask for {} filters of {}",
                            info->name, shape_text(*info), channels, taps));
  }
  return keep_floats(name, *info, channels, taps);
}

// The elements as f32 and aligned: in place where the file has them so.
Result<Tensor> Tensors::keep_floats(const std::string& name, const TensorInfo& info,
                                    std::uint64_t rows, std::uint64_t cols) {
  const bool gguf = stems_.empty();
  if (dtype_info(info.type).is_quantized || (gguf && info.type != DType::f32)) {
    return fail("E_TENSOR",
                fmt::format("tensor {} has type {}, norms and biases are expected in {}", info.name,
                            dtype_info(info.type).name, gguf ? "F32" : "F32, F16 or BF16"));
  }
  Tensor tensor{DType::f32, rows, cols, info.data};
  const bool aligned = reinterpret_cast<std::uintptr_t>(info.data) % alignof(float) == 0;
  if (info.data != nullptr && (info.type != DType::f32 || !aligned)) {
    std::byte* copy = own(rows * cols * sizeof(float));
    decode_row(info.type, info.data, reinterpret_cast<float*>(copy), rows * cols);
    tensor.data = copy;
  }
  resolved_.emplace(name, tensor);
  return tensor;
}

Result<std::vector<float>> Tensors::floats(const std::string& name, std::uint64_t n) {
  ORRERY_TRY(const Tensor tensor, vector(name, n));
  if (tensor.data == nullptr) {
    return fail("E_NODATA", fmt::format("the data of tensor {} was not read", file_name(name)));
  }
  std::vector<float> values(n);
  std::memcpy(values.data(), tensor.data, n * sizeof(float));
  return values;
}

const std::byte* Tensors::data(const std::string& name) const {
  const auto known = resolved_.find(name);
  ORRERY_CHECK(known != resolved_.end());
  return known->second.data;
}

std::span<const std::byte* const> Tensors::expert_data(const std::string& name) const {
  const auto known = experts_.find(name);
  ORRERY_CHECK(known != experts_.end());
  return known->second;
}

void Tensors::hide_layer(std::uint32_t layer) {
  const std::string any = file_name(fmt::format("blk.{}.*.weight", layer));
  const std::string beginning = any.substr(0, any.find('*'));
  for (const TensorInfo& info : checkpoint_->tensors()) {
    if (info.name.starts_with(beginning)) hidden_.insert(info.name);
  }
}

void Tensors::hide(const std::string& name) {
  if (const TensorInfo* info = locate(name); info != nullptr) hidden_.insert(info->name);
}

std::vector<std::string_view> Tensors::unused(std::span<const std::string_view> ignored) const {
  std::vector<std::string_view> names;
  for (const TensorInfo& info : checkpoint_->tensors()) {
    const std::string_view name = info.name;
    if (used_.contains(name) || hidden_.contains(name)) continue;
    const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
    const auto begins = [&](std::string_view beginning) { return name.starts_with(beginning); };
    if (std::ranges::any_of(kIgnoredEndings, ends)) continue;
    if (std::ranges::any_of(kIgnoredBeginnings, begins)) continue;
    if (std::ranges::any_of(ignored, begins)) continue;
    names.push_back(name);
  }
  return names;
}

Status Tensors::check_all_used(std::string_view family,
                               std::span<const std::string_view> ignored) const {
  const std::vector<std::string_view> names = unused(ignored);
  if (names.empty()) return {};
  return fail("E_TENSOR", fmt::format("tensor {} is not part of a {} model of these parameters",
                                      names.front(), family));
}

}  // namespace orrery::model
