// Writes a model anew as a GGUF file of other element types.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "engine/importance.hpp"
#include "engine/quantize_mix.hpp"
#include "storage/io.hpp"
#include "tensor/dtype.hpp"

namespace orrery::engine {

struct QuantizeOptions {
  QuantizeMix mix;
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
// of `in`; E_VALUE for a weight that is not finite or too large for its type. After an error, or a
// death, `out` is as it was before.
Result<QuantizeReport> quantize(const std::string& in, const std::string& out,
                                const QuantizeOptions& options, storage::Io& io);

}  // namespace orrery::engine
