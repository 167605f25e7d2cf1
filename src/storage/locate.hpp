// Finds models by name where they already are: nothing is copied or downloaded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/io.hpp"

namespace orrery::storage {

// The environment variables that say where models are; empty when unset.
struct Environment {
  std::string home;            // HOME
  std::string xdg_cache_home;  // XDG_CACHE_HOME
  std::string hf_home;         // HF_HOME
  std::string hf_hub_cache;    // HF_HUB_CACHE
  std::string ollama_models;   // OLLAMA_MODELS

  static Environment of_process();
};

// $XDG_CACHE_HOME/orrery, by default ~/.cache/orrery. May not exist.
std::string cache_folder(const Environment& environment);
// The folder in it with images of models (engine/image.hpp), which are named "images/STEM".
inline constexpr std::string_view kImagesFolder = "images";

// The path of a model, for Checkpoint::open. `name` is, in this order:
//   empty             the default model
//   a file or folder  itself
//   a short name      model_names.hpp, in the Orrery cache; its pinned checksum is verified
//   FILE or STEM      FILE or STEM.gguf in the Orrery cache
//   ORG/NAME[/FILE]   the Hugging Face cache
//   NAME[:TAG]        the Ollama store
// E_NOMODEL says what was tried and which names are close; E_CHECKSUM a damaged cached file.
Result<std::string> locate(std::string_view name, Io& io, const Environment& environment);

enum class ModelSource { orrery, image, hugging_face, ollama };
std::string_view source_name(ModelSource source);

struct ModelEntry {
  std::string name;  // what `locate` takes
  std::string path;
  std::uint64_t bytes = 0;  // of the weight files
  ModelSource source = ModelSource::orrery;
};

// All models found, by source, then by name. Folders that cannot be read are left out.
std::vector<ModelEntry> list_models(Io& io, const Environment& environment);
// The models directly in a folder: GGUF files, first parts of split ones, folders with weights.
std::vector<ModelEntry> list_folder(const std::string& folder, Io& io);

// Bytes of the weight files of a model that locate() found, all parts of a split one.
std::uint64_t model_bytes(const std::string& path, Io& io);

}  // namespace orrery::storage
