// GGUF files: the parser must accept or refuse any bytes, and what it accepts must be readable.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "storage/gguf.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = orrery::storage::parse_gguf(bytes, "fuzz.gguf");
  if (!file) {
    if (file.error().message.size() > 1024) std::abort();
    return 0;
  }
  const std::byte* end = bytes.data() + bytes.size();
  for (const auto& tensor : file->tensors) {
    if (tensor.data < bytes.data() || tensor.data > end) std::abort();
    if (tensor.bytes > static_cast<std::uint64_t>(end - tensor.data)) std::abort();
  }
  return 0;
}
