// What "Q4_K_M" means: the element type of each tensor of a model, by its kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage/gguf_writer.hpp"
#include "tensor/dtype.hpp"

namespace orrery::engine {

// Types by kind of tensor. Matrices that are none of these kinds have the type `base`. In layers at
// both ends of the model and in every third between them, errors cost most: `*_often` is theirs.
struct QuantizeMix {
  std::string_view name;  // "Q4_K_M", or that of the type
  DType base;
  DType head;                   // the vocabulary head, or the embedding that it is tied to
  DType value, value_often;     // attn_v, attn_qkv
  DType output;                 // attn_output
  DType down, down_often;       // ffn_down
  std::uint32_t file_type = 0;  // general.file_type, as tools number it; kNoFileType: none
};
inline constexpr std::uint32_t kNoFileType = 0xFFFFFFFF;

// By the name of a mix or of a type that can be encoded, in any case of letters.
std::optional<QuantizeMix> find_mix(std::string_view name);
// "F32, F16, ..., Q4_K_S, Q4_K_M, ..."
std::string mix_names();

struct MixModel {
  std::uint32_t n_layers = 0;
  bool tied = false;  // no output.weight: the embedding is the head
};

// The type that a tensor gets. Vectors, routers, convolutions and positions keep their precision
// (`source`, or F32 for vectors). Rows that do not fill the blocks of a type get the next larger
// one with shorter blocks.
DType mixed_type(const QuantizeMix& mix, const MixModel& model, const storage::GgufTensor& source);

}  // namespace orrery::engine
