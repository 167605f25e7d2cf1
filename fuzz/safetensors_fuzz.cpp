// safetensors files and indexes: accepted or refused, and accepted tensors tile the data.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "storage/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto index = orrery::storage::parse_safetensors_index(text, "fuzz.json")) {
    for (const auto& [tensor, file] : index->file_of) {
      if (file.find('/') != std::string::npos || file == "..") std::abort();
    }
  }
  const auto tensors = orrery::storage::parse_safetensors(bytes, "fuzz.safetensors");
  if (!tensors) {
    if (tensors.error().message.size() > 1024) std::abort();
    return 0;
  }
  std::uint64_t end = 8;
  if (!tensors->empty()) end = tensors->front().offset;
  for (const auto& tensor : *tensors) {
    if (tensor.offset != end) std::abort();
    end += tensor.bytes;
  }
  if (!tensors->empty() && end != size) std::abort();
  return 0;
}
