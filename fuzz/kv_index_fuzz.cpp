// The index of a session file: accepted or refused, and what is accepted is written as it was read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "engine/kv_index.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto index = orrery::engine::decode_index(bytes, "fuzz");
  if (!index) {
    if (index.error().kind != "E_SESSION" || index.error().message.size() > 1024) std::abort();
    return 0;
  }
  const std::string text = orrery::engine::encode_index(*index);
  if (!std::ranges::equal(std::as_bytes(std::span(text)), bytes)) std::abort();
  return 0;
}
