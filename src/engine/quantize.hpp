// Writes a model anew as a GGUF file of other element types, or as an image.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "engine/importance.hpp"
#include "engine/quantize_mix.hpp"
#include "model/gguf_image.hpp"
#include "storage/io.hpp"
#include "tensor/dtype.hpp"

namespace orrery::engine {

struct QuantizeOptions {
  std::optional<QuantizeMix> mix;  // none: every tensor keeps its type
  bool image = false;              // see image.hpp; what is as small already keeps its type
  bool packed = false;             // of an image: what can be packed is
  const Importance* importance = nullptr;
  int threads = 0;  // 0: physical cores
  // Elements done and in all; false stops with E_STOPPED.
  std::function<bool(std::uint64_t, std::uint64_t)> progress;
};

struct QuantizeReport {
  std::uint64_t elements = 0;                       // of all tensors
  std::uint64_t bytes_before = 0, bytes_after = 0;  // of the weights in the files
  std::map<DType, std::uint32_t> tensors;           // how many of each type were written
  std::uint32_t without_importance = 0;  // quantized matrices that the file does not name
  bool was_quantized = false;            // the source had lost precision already
};

// Reads the model at `in` (GGUF or safetensors) and writes `out`. Memory: the pages of one tensor
// and a few MiB. Errors: those of Checkpoint::open, gguf_image and Io; E_SAME when `out` is a file
// of `in`; E_IMAGE when `in` is an image (the losses would add up unseen); E_VALUE for a weight
// that is not finite or too large for its type. After an error, or a death, `out` is as it was
// before.
Result<QuantizeReport> quantize(const std::string& in, const std::string& out,
                                const QuantizeOptions& options, storage::Io& io);

// Bytes of the weights that an image of this mix would have.
std::uint64_t image_bytes(const model::GgufImage& image, const std::optional<QuantizeMix>& mix);

}  // namespace orrery::engine
