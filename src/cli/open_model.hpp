// The options that every command with a model takes, and the opening of it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "engine/model.hpp"

namespace orrery::cli {

struct OpenOptions {
  int threads = 0;            // 0: physical cores
  std::uint32_t context = 0;  // 0: the training context, capped by memory
  std::uint32_t sequences = 1;
  bool deterministic = false;
};

// --threads, --ctx, --deterministic.
void add_open_options(CLI::App& command, OpenOptions& options);

// Locates and opens; warnings of the files go to stderr.
Result<std::shared_ptr<const engine::Model>> open_model(
    const std::string& name, const OpenOptions& options,
    engine::Device device = engine::Device::cpu);

}  // namespace orrery::cli
