// The table of tensors of a GGUF file.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "storage/byte_reader.hpp"
#include "storage/checkpoint.hpp"

namespace orrery::storage {

struct GgufTable {
  std::vector<TensorInfo> tensors;           // offsets are relative until placed
  std::vector<std::uint64_t> offset_fields;  // byte of each tensor's offset field, for errors
};

// Reads and checks `n` tensor infos: names, shapes, types and sizes.
Result<GgufTable> read_gguf_table(ByteReader& reader, std::uint64_t n);

// Checks that the tensors tile the data, one after the other with padding to `alignment`, and
// sets their offsets and data pointers. Gives the byte after the last tensor.
Result<std::uint64_t> place_gguf_tensors(const ByteReader& reader, std::uint64_t data_start,
                                         std::uint64_t alignment, GgufTable& table);

}  // namespace orrery::storage
