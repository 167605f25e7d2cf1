#include "engine/quantize_mix.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <vector>

#include "tensor/decode.hpp"
#include "tensor/encode.hpp"

namespace orrery::engine {
namespace {

using enum DType;

constexpr QuantizeMix kMixes[] = {
    // name     base  head  value often  output down  often
    {"Q2_K_S", q2_k, q6_k, q3_k, q4_k, q2_k, q2_k, q3_k, 21},
    {"Q3_K_S", q3_k, q6_k, q3_k, q4_k, q3_k, q3_k, q3_k, 11},
    {"Q3_K_M", q3_k, q6_k, q4_k, q5_k, q4_k, q3_k, q4_k, 12},
    {"Q3_K_L", q3_k, q6_k, q5_k, q5_k, q5_k, q5_k, q5_k, 13},
    {"Q4_K_S", q4_k, q6_k, q4_k, q5_k, q4_k, q4_k, q5_k, 14},
    {"Q4_K_M", q4_k, q6_k, q4_k, q6_k, q4_k, q4_k, q6_k, 15},
    {"Q5_K_S", q5_k, q6_k, q5_k, q5_k, q5_k, q5_k, q5_k, 16},
    {"Q5_K_M", q5_k, q6_k, q5_k, q6_k, q5_k, q5_k, q6_k, 17},
};

struct FileType {
  DType type;
  std::uint32_t number;
};
constexpr FileType kFileTypes[] = {{f32, 0},   {f16, 1},   {q4_0, 2},    {q4_1, 3},    {q8_0, 7},
                                   {q5_0, 8},  {q5_1, 9},  {q2_k, 10},   {q3_k, 11},   {q4_k, 14},
                                   {q5_k, 16}, {q6_k, 18}, {iq4_nl, 25}, {iq4_xs, 30}, {bf16, 32}};

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::vector<DType> encodable() {
  std::vector<DType> types;
  for (std::uint32_t id = 0; id < 256; ++id) {
    const std::optional<DType> type = dtype_from_id(id);
    if (type && is_encodable(*type)) types.push_back(*type);
  }
  return types;
}

double bits(DType type) {
  const DTypeInfo& info = dtype_info(type);
  return 8.0 * info.block_bytes / info.block_len;
}

// One type throughout, but a head of few bits would spoil what all layers did.
QuantizeMix plain_mix(DType type) {
  const DType head = bits(type) < bits(q6_k) ? q6_k : type;
  std::uint32_t file_type = kNoFileType;
  for (const FileType& known : kFileTypes) {
    if (known.type == type) file_type = known.number;
  }
  return {dtype_info(type).name, type, head, type, type, type, type, type, file_type};
}

// The type whose blocks divide a row of n: the next larger one with blocks of 32, else F16.
DType fitting(DType type, std::uint64_t n) {
  if (n % dtype_info(type).block_len == 0) return type;
  DType shorter = f16;
  if (type == q2_k || type == q3_k || type == iq4_xs) shorter = iq4_nl;
  if (type == q4_k) shorter = q5_0;
  if (type == q5_k) shorter = q5_1;
  if (type == q6_k) shorter = q8_0;
  return n % dtype_info(shorter).block_len == 0 ? shorter : f16;
}

// "blk.12.ffn_down.weight": 12 and "ffn_down".
struct Name {
  std::optional<std::uint32_t> layer;
  std::string_view stem;
};
Name parse_name(std::string_view name) {
  Name parsed;
  if (name.starts_with("blk.")) {
    std::uint32_t layer = 0;
    const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), layer);
    if (error == std::errc{} && end != name.data() + name.size() && *end == '.') {
      parsed.layer = layer;
      name.remove_prefix(static_cast<std::size_t>(end + 1 - name.data()));
    }
  }
  parsed.stem = name.substr(0, name.rfind('.'));
  return parsed;
}

bool errs_dearly(std::optional<std::uint32_t> layer, std::uint32_t n_layers) {
  if (!layer) return false;
  const std::uint32_t eighth = n_layers / 8;
  return *layer < eighth || *layer + eighth >= n_layers || (*layer - eighth) % 3 == 2;
}

// Matrices whose products are small or not products at all.
constexpr std::array<std::string_view, 8> kKept = {"norm",           "ffn_gate_inp",  "ssm_conv1d",
                                                   "shortconv.conv", "position_embd", "token_types",
                                                   "rope_",          "exp_probs"};

bool is_kept(const storage::GgufTensor& tensor, std::string_view stem) {
  if (tensor.n_dims < 2 || !tensor.name.ends_with(".weight") || !is_decodable(tensor.type)) {
    return true;
  }
  return std::ranges::any_of(
      kKept, [&](std::string_view part) { return stem.find(part) != std::string_view::npos; });
}

}  // namespace

std::optional<QuantizeMix> find_mix(std::string_view name) {
  const std::string wanted = upper(name);
  for (const QuantizeMix& mix : kMixes) {
    if (mix.name == wanted) return mix;
  }
  for (const DType type : encodable()) {
    if (dtype_info(type).name == wanted) return plain_mix(type);
  }
  return std::nullopt;
}

std::string mix_names() {
  std::string names = encodable_types();
  for (const QuantizeMix& mix : kMixes) names += ", " + std::string(mix.name);
  return names;
}

DType mixed_type(const QuantizeMix& mix, const MixModel& model, const storage::GgufTensor& source) {
  const Name name = parse_name(source.name);
  if (is_kept(source, name.stem)) {
    // As llama.cpp's converters have them: it adds token types as it does a bias, and rounds what
    // it multiplies with a BF16 router.
    const bool is_quantized = source.n_dims > 1 && dtype_info(source.type).block_len > 1;
    return is_decodable(source.type) && !is_quantized ? f32 : source.type;
  }
  const bool dear = errs_dearly(name.layer, model.n_layers);
  const auto is = [&](std::string_view kind) { return name.stem.starts_with(kind); };
  DType type = mix.base;
  if (name.stem == "output" || (name.stem == "token_embd" && model.tied)) {
    type = mix.head;
  } else if (is("attn_v") || is("attn_qkv")) {
    type = dear ? mix.value_often : mix.value;
  } else if (is("attn_output")) {
    type = mix.output;
  } else if (is("ffn_down")) {
    type = dear ? mix.down_often : mix.down;
  }
  return fitting(type, source.dims[0]);
}

}  // namespace orrery::engine
