// The places where models are kept: Orrery's cache, Hugging Face's hub cache, Ollama's store.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/locate.hpp"

namespace orrery::storage {

// A relative name of one or more components, none of them empty, "." or "..", without NUL or
// backslash: safe to append to a folder.
bool is_safe_name(std::string_view name);

// Orrery's cache: FILE, STEM of STEM.gguf, or a folder.
std::optional<std::string> find_in_cache(std::string_view name, Io& io, const Environment& env);
void list_cache(std::vector<ModelEntry>& out, Io& io, const Environment& env);

// Hugging Face: models--ORG--NAME/snapshots/REVISION below the hub folder. `name` is ORG/NAME or
// ORG/NAME/FILE.
std::string hugging_face_hub(const Environment& environment);
std::optional<std::string> find_in_hub(std::string_view name, Io& io, const Environment& env);
void list_hub(std::vector<ModelEntry>& out, Io& io, const Environment& env);

// Ollama: manifests/HOST/NAMESPACE/NAME/TAG names the blob of the model by digest. `name` is
// [[HOST/]NAMESPACE/]NAME[:TAG].
std::vector<std::string> ollama_stores(const Environment& environment);
std::optional<std::string> find_in_ollama(std::string_view name, Io& io, const Environment& env);
void list_ollama(std::vector<ModelEntry>& out, Io& io, const Environment& env);

// Bytes of the weight files (.gguf, .safetensors) directly in a folder.
std::uint64_t weight_bytes(const std::string& folder, Io& io);

}  // namespace orrery::storage
