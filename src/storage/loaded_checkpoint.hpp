// A checkpoint in memory: what the format-specific loaders fill in.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/checkpoint.hpp"

namespace orrery::storage {

// Files beside safetensors; null where absent.
struct SideFiles {
  std::unique_ptr<MappedFile> config;
  std::unique_ptr<MappedFile> tokenizer;
  std::unique_ptr<MappedFile> tokenizer_config;
  std::unique_ptr<MappedFile> generation_config;
  std::unique_ptr<MappedFile> chat_template;
  std::unique_ptr<MappedFile> sentence_config;
};

struct CheckpointParts {
  Format format = Format::gguf;
  std::string path;
  std::vector<std::string> files;
  std::vector<std::unique_ptr<MappedFile>> mappings;  // one per file
  Metadata metadata;
  std::vector<TensorInfo> tensors;
  SideFiles side;
  std::vector<SentenceModule> sentence_modules;
  std::vector<std::string> warnings;
};

// Builds the index of names; E_DUPTENSOR when two tensors share one.
Result<std::shared_ptr<const Checkpoint>> make_checkpoint(CheckpointParts parts);

// The loaders behind Checkpoint::open. `path` is what the user gave, kept for display.
Result<std::shared_ptr<const Checkpoint>> open_gguf(const std::string& path,
                                                    const std::string& file, Io& io);
Result<std::shared_ptr<const Checkpoint>> open_safetensors_file(const std::string& path,
                                                                const std::string& file, Io& io);
// A folder with model.safetensors.index.json.
Result<std::shared_ptr<const Checkpoint>> open_safetensors_shards(const std::string& path,
                                                                  const std::string& folder,
                                                                  Io& io);

// The folder of a file, "." for a bare name.
std::string folder_of(std::string_view file);
std::string join_path(std::string_view folder, std::string_view name);

}  // namespace orrery::storage
