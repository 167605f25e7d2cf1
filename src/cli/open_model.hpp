// The options that every command with a model takes, and the opening of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "cli/options.hpp"
#include "engine/model.hpp"
#include "engine/quantize_mix.hpp"
#include "engine/session.hpp"
#include "tensor/dtype.hpp"

namespace orrery::cli {

// Element types of the cache.
struct KvTypes {
  DType k = DType::f16, v = DType::f16;
};

// "K,V", or one name for both. The error is a sentence for who typed it.
Result<KvTypes> parse_kv_types(const std::string& text);

Result<engine::WeightLayout> parse_layout(const std::string& text);
Result<storage::LoadMode> parse_load(const std::string& text);
Result<engine::Overflow> parse_overflow(const std::string& text);

struct OpenOptions {
  int threads = 0;            // 0: physical cores
  std::uint32_t context = 0;  // 0: the training context, capped by memory
  std::uint32_t sequences = 1;
  std::uint64_t cache_bytes = 0;  // most that the cache takes; 0: half of the available memory
  bool deterministic = false;
  KvTypes kv;
  engine::WeightLayout layout = engine::WeightLayout::automatic;
  storage::LoadMode load = storage::LoadMode::automatic;
  std::uint64_t memory = 0;  // bytes of weights and cache; 0: no limit
  bool seal = false;         // see ModelOptions
  bool pin = false;          // weights, cache and scratch stay in memory
  std::string quantize;      // the types of an image; "": those of the model
  std::uint64_t fit = 0;     // bytes that all of it may take; 0: no limit
  std::optional<plan::PoolKind> pooling = {};
};

// --threads, --ctx, --kv-type, --layout, --deterministic; --load, --seal, --pin and
// --memory apart, for those that choose.
void add_open_options(Command command, OpenOptions& options);
void add_load_option(Command command, OpenOptions& options);
// --quantize and --fit.
void add_image_options(Command command, OpenOptions& options);
// What --quantize names; kUsageError.
Result<engine::QuantizeMix> parse_mix(const std::string& text);

// ", packed in a sealed memory file" or ", image"; empty for weights that are used as they lie.
std::string packed_phrase(const engine::Model& model);

// Opens the file of a path as it is; warnings go to stderr, and with `pin` what became of the
// memory.
Result<std::shared_ptr<const engine::Model>> open_file(const std::string& path,
                                                       const OpenOptions& options,
                                                       engine::Device device = engine::Device::cpu);
// Locates and opens, on device cpu the image that the options ask for (images.hpp) or the one that
// `orrery pack` made of the model.
Result<std::shared_ptr<const engine::Model>> open_model(
    const std::string& name, const OpenOptions& options,
    engine::Device device = engine::Device::cpu);

}  // namespace orrery::cli
