// The element types with which a model fits into a number of bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "engine/quantize_mix.hpp"
#include "model/gguf_image.hpp"

namespace orrery::engine {

// What a model takes beside its weights.
struct FitNeeds {
  std::uint32_t context = 0;  // tokens
  std::uint64_t cache = 0;    // bytes of all sequences with so many
  std::uint64_t scratch = 0;  // bytes of the programs
};

struct Fit {
  std::optional<QuantizeMix> mix;  // none: as the model is
  std::uint64_t weights = 0;       // bytes
};

// The least loss, which is the largest of: the model as it is, Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_K_S,
// Q3_K_M, Q2_K_S. E_MEMORY when none of them fits; it says what the smallest needs.
Result<Fit> fit_model(const model::GgufImage& image, const FitNeeds& needs, std::uint64_t limit);

}  // namespace orrery::engine
