// Scalar decoders of every element type that weights have: the definition of what file bytes mean.
// Layouts: the block structures of the GGUF format (ggml), all little endian.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.hpp"

namespace orrery {

// True for the types that decode_row knows: F32, F16, BF16 and the quantized ones.
bool is_decodable(DType type);

// Writes the n elements of a row as f32. `source` needs no alignment; n is a multiple of the
// type's block_len (a CHECK). `type` is decodable (a CHECK).
void decode_row(DType type, const std::byte* source, float* target, std::uint64_t n);

}  // namespace orrery
