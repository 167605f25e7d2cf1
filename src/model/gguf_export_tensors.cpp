#include "model/gguf_export_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "model/family.hpp"
#include "tensor/decode.hpp"

namespace orrery::model {
namespace {

// "blk.3." and "attn_q.weight"; the beginning is empty for tensors of the whole model.
std::pair<std::string, std::string_view> split_layer(std::string_view name) {
  if (!name.starts_with("blk.")) return {"", name};
  const std::size_t end = name.find('.', 4) + 1;
  return {std::string(name.substr(0, end)), name.substr(end)};
}

// Row `row` of a matrix whose first row is at `data`.
const std::byte* row_at(const std::byte* data, const Tensor& tensor, std::uint64_t row) {
  return data == nullptr ? nullptr : data + row * row_bytes(tensor.dtype, tensor.cols);
}

class TensorExport {
 public:
  TensorExport(const LoadedModel& source, GgufImage& image)
      : source_(source), h_(source.hparams()), tensors_(source.tensors()), image_(image) {}

  Status run() {
    ORRERY_TRY_VOID(check_dense());
    for (const auto& [name, tensor] : tensors_.resolved()) {
      ORRERY_TRY_VOID(add(name, tensor));
    }
    if (h_.altup.streams > 0) add_unread_keys();
    return {};
  }

 private:
  std::unexpected<Error> refuse(std::string what) const {
    return fail("E_EXPORT",
                fmt::format("a {} model with {} cannot be written as GGUF, which has no place "
                            "for that",
                            h_.family, what));
  }
  ImageTensor& put(std::string name, const Tensor& tensor);
  Status add(const std::string& name, const Tensor& tensor);
  Status check_dense() const;
  std::string dense_name(std::string_view name) const;
  void add_gate_and_up(const std::string& layer, const std::string& name, const Tensor& tensor);
  void add_head_matrices(const std::string& layer, const Tensor& tensor);
  void add_delta_inputs(const std::string& layer, const Tensor& tensor);
  Status add_streams(std::string_view first, const Tensor& tensor);
  Status check_bias_of_experts(const std::string& name, const Tensor& tensor) const;
  void cut_positions(ImageTensor& tensor) const;
  void fill_inputs(ImageTensor& tensor) const;
  void shape_scan(std::string_view stem, ImageTensor& tensor) const;
  void add_unread_keys();

  const LoadedModel& source_;
  const Hparams& h_;
  const Tensors& tensors_;
  GgufImage& image_;
};

// As the model has it, a tensor for each expert as one.
ImageTensor& TensorExport::put(std::string name, const Tensor& tensor) {
  ImageTensor& out = image_.tensors.emplace_back();
  const bool is_vector = tensor.rows == 1;
  out.data = tensor.data;
  if (tensors_.is_experts(name)) {
    const auto experts = tensors_.expert_data(name);
    out.as = {name, tensor.dtype, 3, {tensor.cols, tensor.rows, experts.size(), 1}};
    for (std::size_t e = 0; e < experts.size(); ++e) {
      out.runs.push_back({e * tensor.rows, experts[e]});
    }
  } else {
    out.as = {std::move(name), tensor.dtype, is_vector ? 1U : 2U, {tensor.cols, tensor.rows, 1, 1}};
  }
  return out;
}

Status TensorExport::add(const std::string& name, const Tensor& tensor) {
  const auto [layer, stem] = split_layer(name);
  const bool attends = source_.family().attends;
  if (stem == "ffn_moe.bias") return check_bias_of_experts(name, tensor);
  if (stem.starts_with("altup_proj.") || stem.starts_with("altup_unembd_proj.")) {
    return stem.contains(".0.") ? add_streams(stem, tensor) : Status{};
  }
  // GGUF's gemma4 alone has both as one.
  if (stem == "ffn_gate_up_exps.weight" && h_.family != "gemma4") {
    add_gate_and_up(layer, name, tensor);
  } else if (stem == "attn_kv_b.weight") {
    add_head_matrices(layer, tensor);
  } else if (stem == "ssm_in.weight" && attends) {
    add_delta_inputs(layer, tensor);
  } else if (const std::string dense = dense_name(name); !dense.empty()) {
    put(dense, tensor);
  } else {
    ImageTensor& out = put(name, tensor);
    if (stem == "position_embd.weight") cut_positions(out);
    if (stem == "per_layer_token_embd.weight") fill_inputs(out);
    if (!attends) shape_scan(stem, out);
  }
  return {};
}

// GGUF has places for two matrices behind the pooling, of EmbeddingGemma alone, or for a head that
// ranks.
Status TensorExport::check_dense() const {
  if (h_.ranks || h_.dense.empty()) return {};
  bool plain = h_.family == "gemma3" && h_.dense.size() <= 2;
  for (const DenseLayer& dense : h_.dense) {
    plain = plain && !dense.tanh && !tensors_.has(dense.stem + ".bias");
  }
  return plain ? Status{} : refuse("dense layers of this kind behind its pooling");
}

// GGUF's name of a tensor behind the pooling; empty for any other.
std::string TensorExport::dense_name(std::string_view name) const {
  for (std::size_t i = 0; i < h_.dense.size(); ++i) {
    const std::string& stem = h_.dense[i].stem;
    for (const std::string_view ending : {".weight", ".bias"}) {
      if (name != stem + std::string(ending)) continue;
      if (!h_.ranks) return fmt::format("dense_{}{}", i + 2, ending);
      return fmt::format("cls{}{}", i + 1 < h_.dense.size() ? "" : ".output", ending);
    }
  }
  return {};
}

void TensorExport::add_gate_and_up(const std::string& layer, const std::string& name,
                                   const Tensor& tensor) {
  const std::uint64_t rows = tensor.rows / 2;
  const auto experts = tensors_.expert_data(name);
  for (const bool up : {false, true}) {
    ImageTensor& out = image_.tensors.emplace_back();
    out.as = {fmt::format("{}ffn_{}_exps.weight", layer, up ? "up" : "gate"),
              tensor.dtype,
              3,
              {tensor.cols, rows, experts.size(), 1}};
    for (std::size_t e = 0; e < experts.size(); ++e) {
      out.runs.push_back({e * rows, row_at(experts[e], tensor, up ? rows : 0)});
    }
  }
}

// For each head the rows of its keys, then those of its values. GGUF has the keys' turned.
void TensorExport::add_head_matrices(const std::string& layer, const Tensor& tensor) {
  const LatentAttention& a = h_.latent;
  ORRERY_CHECK(dtype_info(tensor.dtype).block_len == 1);  // as all but experts of safetensors
  ImageTensor keys, values;
  keys.as = {layer + "attn_k_b.weight", tensor.dtype, 3, {a.nope_dim, a.rank, h_.n_heads, 1}};
  keys.turned_cols = a.rank;
  values.as = {layer + "attn_v_b.weight", tensor.dtype, 3, {a.rank, a.v_dim, h_.n_heads, 1}};
  for (std::uint64_t head = 0; head < h_.n_heads; ++head) {
    const std::uint64_t first = head * (a.nope_dim + a.v_dim);
    keys.runs.push_back({head * a.rank, row_at(tensor.data, tensor, first)});
    values.runs.push_back({head * a.v_dim, row_at(tensor.data, tensor, first + a.nope_dim)});
  }
  image_.tensors.push_back(std::move(keys));
  image_.tensors.push_back(std::move(values));
}

// For each key head the rows of q, of k, of its values and of their gates. GGUF has q of all heads,
// then k, then the values, and the gates apart.
void TensorExport::add_delta_inputs(const std::string& layer, const Tensor& tensor) {
  const StateShape& s = h_.state;
  const std::uint64_t values = s.value_dim() / s.key_heads;
  const std::uint64_t widths[] = {s.k_dim, s.k_dim, values, values};
  const std::uint64_t of_head = 2 * (s.k_dim + values);
  ImageTensor qkv, gate;
  qkv.as = {layer + "attn_qkv.weight", tensor.dtype, 2, {tensor.cols, s.conv_dim, 1, 1}};
  gate.as = {layer + "attn_gate.weight", tensor.dtype, 2, {tensor.cols, s.value_dim(), 1, 1}};
  std::uint64_t offset = 0, begin = 0;
  for (std::size_t part = 0; part < std::size(widths); ++part) {
    ImageTensor& out = part < 3 ? qkv : gate;
    if (part == 3) begin = 0;
    for (std::uint64_t head = 0; head < s.key_heads; ++head, begin += widths[part]) {
      out.runs.push_back({begin, row_at(tensor.data, tensor, head * of_head + offset)});
    }
    offset += widths[part];
  }
  image_.tensors.push_back(std::move(qkv));
  image_.tensors.push_back(std::move(gate));
}

// The matrices between the first stream and the others, which GGUF has as one tensor.
Status TensorExport::add_streams(std::string_view first, const Tensor& tensor) {
  const std::string_view stem = first.substr(0, first.find('.'));
  const std::uint64_t n = h_.altup.streams - 1;
  ImageTensor out;
  out.as = {fmt::format("{}.weight", stem), tensor.dtype, 3, {tensor.cols, tensor.rows, n, 1}};
  for (std::uint64_t i = 0; i < n; ++i) {
    const Tensor& other = tensors_.resolved().find(fmt::format("{}.{}.weight", stem, i))->second;
    if (other.dtype != tensor.dtype) return refuse(fmt::format("{} of unlike types", stem));
    out.runs.push_back({i * tensor.rows, other.data});
  }
  image_.tensors.push_back(std::move(out));
  return {};
}

// GGUF's readers know no bias of all experts together.
Status TensorExport::check_bias_of_experts(const std::string& name, const Tensor& tensor) const {
  if (tensor.data == nullptr) return {};
  std::vector<float> bias(tensor.cols);
  decode_row(tensor.dtype, tensor.data, bias.data(), bias.size());
  if (std::ranges::all_of(bias, [](float value) { return value == 0.0F; })) return {};
  return refuse(fmt::format("a bias of its experts ({})", tensors_.file_name(name)));
}

// The rows before position 0 are RoBERTa's padding.
void TensorExport::cut_positions(ImageTensor& tensor) const {
  tensor.as.dims[1] -= h_.first_position;
  if (tensor.data == nullptr) return;
  tensor.data += h_.first_position * row_bytes(tensor.as.type, tensor.as.dims[0]);
}

// Tokens beyond the table of the layers' inputs get its first row (Gemma 3n); llama.cpp asks for a
// row for each token of the vocabulary.
void TensorExport::fill_inputs(ImageTensor& tensor) const {
  const std::uint64_t rows = tensor.as.dims[1];
  tensor.as.dims[1] = h_.vocab_size;
  if (rows >= h_.vocab_size) return;
  tensor.runs.push_back({0, tensor.data});
  for (std::uint64_t row = rows; row < h_.vocab_size; ++row) {
    tensor.runs.push_back({row, tensor.data});
  }
}

// Mamba-2's shapes: (heads, 1), and a row for each group.
void TensorExport::shape_scan(std::string_view stem, ImageTensor& tensor) const {
  const StateShape& s = h_.state;
  const bool of_heads = stem == "ssm_a" || stem == "ssm_d";
  if (!of_heads && stem != "ssm_norm.weight") return;
  const std::uint64_t rows = of_heads ? s.heads : s.key_heads;
  tensor.as.n_dims = 2;
  tensor.as.dims = {tensor.as.dims[0] / rows, rows, 1, 1};
}

// Gemma 3n's last layers do without keys and values, but files may have them, and llama.cpp asks.
void TensorExport::add_unread_keys() {
  for (std::uint32_t i = h_.n_layers - h_.shared_kv_layers; i < h_.n_layers; ++i) {
    for (const char* stem : {"attn_k", "attn_v", "attn_k_norm"}) {
      const std::string name = fmt::format("blk.{}.{}.weight", i, stem);
      const storage::TensorInfo* info = source_.checkpoint().find(tensors_.file_name(name));
      if (info == nullptr || !is_decodable(info->type)) continue;
      ImageTensor& out = image_.tensors.emplace_back();
      out.as = {name, info->type, info->n_dims, info->dims};
      out.data = info->data;
    }
  }
}

}  // namespace

Status add_gguf_tensors(const LoadedModel& source, GgufImage& image) {
  return TensorExport(source, image).run();
}

void convert_rows(const Hparams& source, const Hparams& back, GgufImage& image) {
  const bool pairs =
      source.rope == plan::RopeStyle::halves && back.rope == plan::RopeStyle::adjacent;
  for (ImageTensor& tensor : image.tensors) {
    const std::string_view name = tensor.as.name;
    const bool rotates = name.contains("attn_q.") || name.contains("attn_k.");
    if (pairs && rotates) {
      tensor.head_dim = source.head_dim;
      tensor.rope_dim = source.rope_dim;
    }
    // Those of a recurrence are stored as they are.
    const bool is_norm = name.ends_with("norm.weight") && !name.ends_with("ssm_norm.weight");
    if (is_norm) tensor.add = source.norm_offset - back.norm_offset;
  }
}

}  // namespace orrery::model
