// Names of the parts of one model: PREFIX-00001-of-00003.gguf (and .safetensors).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orrery::storage {

struct SplitName {
  std::string prefix;    // with the folder
  std::uint32_t number;  // from 1
  std::uint32_t count;
  std::string extension;  // with the dot
};

// Nothing when the path does not end like a part's name.
std::optional<SplitName> parse_split_name(std::string_view path);

// The path of part `number`, from 1.
std::string split_part_path(const SplitName& name, std::uint32_t number);

}  // namespace orrery::storage
