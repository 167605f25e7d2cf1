// Encoders of every element type that weights have, the inverse of tensor/decode.hpp. A quantized
// block gets the scales (and minima) that make its squared error small: candidates are tried and
// each is refined by least squares. The same input gives the same bytes on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensor/dtype.hpp"

namespace orrery {

bool is_encodable(DType type);

// The names of the types that is_encodable knows: "F32, F16, ...".
std::string encodable_types();

// Quantized types take values up to this magnitude.
inline constexpr float kMaxEncoded = 1e9F;

// Writes the n elements of a row as `type`; `target` needs no alignment. `source` is finite and
// within kMaxEncoded, n a multiple of the type's block_len, `type` encodable (CHECKs of the last
// two). `importance` is what a squared error of each column costs, in [0, kMaxEncoded] ((n), or
// null: large weights count a little more than small ones). Values beyond F16 become infinite in
// F16; a scale beyond it is limited.
void encode_row(DType type, const float* source, const float* importance, std::byte* target,
                std::uint64_t n);

}  // namespace orrery
