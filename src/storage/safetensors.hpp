// The safetensors container (huggingface.co/docs/safetensors): u64 N | N bytes of JSON | data.
// The JSON maps each tensor's name to dtype, shape (row-major: the last dimension is contiguous)
// and data_offsets [begin, end) relative to the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::storage {

// The tensors in the order of their data, which they tile exactly. Dimensions are turned around to
// GGUF's order (dims[0] contiguous); a scalar has one dimension of 1. Dimensions may be 0.
// `label` names the file in errors.
Result<std::vector<TensorInfo>> parse_safetensors(std::span<const std::byte> bytes,
                                                  std::string_view label);

// model.safetensors.index.json: the file of each tensor. File names are plain names.
struct SafetensorsIndex {
  std::map<std::string, std::string, std::less<>> file_of;  // by tensor
  std::uint64_t total_size = 0;                             // of all data; 0 when not stated
};
Result<SafetensorsIndex> parse_safetensors_index(std::string_view text, std::string_view label);

}  // namespace orrery::storage
