// Ollama's store, read in place.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "storage/limits.hpp"
#include "storage/loaded_checkpoint.hpp"
#include "storage/model_stores.hpp"

namespace orrery::storage {
namespace {

constexpr std::string_view kRegistry = "registry.ollama.ai";
constexpr std::string_view kLibrary = "library";

// "sha256:HEX" as the name of the blob, or nothing when it is no such digest.
std::optional<std::string> blob_name(std::string_view digest) {
  constexpr std::string_view kPrefix = "sha256:";
  constexpr std::size_t kHexDigits = 64;
  if (!digest.starts_with(kPrefix)) return std::nullopt;
  const std::string_view hex = digest.substr(kPrefix.size());
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (hex.size() != kHexDigits || !std::all_of(hex.begin(), hex.end(), is_hex)) return std::nullopt;
  return fmt::format("sha256-{}", hex);
}

std::string_view string_field(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto field = object.find(key);
  if (field == object.end() || !field->is_string()) return {};
  return field->get_ref<const std::string&>();
}

// The blob of the layer that holds the model.
std::optional<std::string> model_blob(const std::string& manifest_path, Io& io) {
  const auto text = io.read_file(manifest_path, kMaxManifestBytes);
  if (!text) return std::nullopt;
  const auto manifest = nlohmann::json::parse(*text, nullptr, false);
  if (!manifest.is_object() || !manifest.contains("layers")) return std::nullopt;
  for (const auto& layer : manifest["layers"]) {
    if (string_field(layer, "mediaType") == "application/vnd.ollama.image.model") {
      return blob_name(string_field(layer, "digest"));
    }
  }
  return std::nullopt;
}

std::optional<std::string> blob_path(const std::string& store, const std::string& manifest,
                                     Io& io) {
  const std::optional<std::string> blob = model_blob(manifest, io);
  if (!blob) return std::nullopt;
  std::string path = fmt::format("{}/blobs/{}", store, *blob);
  if (!io.exists(path)) return std::nullopt;
  return path;
}

// HOST/NAMESPACE/NAME/TAG of a name as users type it.
std::optional<std::string> manifest_name(std::string_view name) {
  std::string_view tag = "latest";
  const std::size_t colon = name.rfind(':');
  if (colon != std::string_view::npos && name.find('/', colon) == std::string_view::npos) {
    tag = name.substr(colon + 1);
    name = name.substr(0, colon);
  }
  std::string full;
  switch (std::count(name.begin(), name.end(), '/')) {
    case 0:
      full = fmt::format("{}/{}/{}/{}", kRegistry, kLibrary, name, tag);
      break;
    case 1:
      full = fmt::format("{}/{}/{}", kRegistry, name, tag);
      break;
    case 2:
      full = fmt::format("{}/{}", name, tag);
      break;
    default:
      return std::nullopt;
  }
  if (!is_safe_name(full)) return std::nullopt;
  return full;
}

// The shortest name that manifest_name turns into these four components.
std::string short_name(const std::string& host, const std::string& space, const std::string& name,
                       const std::string& tag) {
  if (host != kRegistry) return fmt::format("{}/{}/{}:{}", host, space, name, tag);
  if (space != kLibrary) return fmt::format("{}/{}:{}", space, name, tag);
  return fmt::format("{}:{}", name, tag);
}

std::vector<std::string> names_in(const std::string& folder, Io& io) {
  auto names = io.list(folder);
  return names ? std::move(*names) : std::vector<std::string>{};
}

void list_tags(std::vector<ModelEntry>& out, const std::string& store, const std::string& folder,
               const std::string& host, const std::string& space, const std::string& name, Io& io) {
  for (const std::string& tag : names_in(folder, io)) {
    const std::optional<std::string> blob = blob_path(store, join_path(folder, tag), io);
    if (!blob) continue;
    const auto info = io.info(*blob);
    out.push_back(
        {short_name(host, space, name, tag), *blob, info ? info->size : 0, ModelSource::ollama});
  }
}

}  // namespace

std::vector<std::string> ollama_stores(const Environment& environment) {
  if (!environment.ollama_models.empty()) return {environment.ollama_models};
  std::vector<std::string> stores;
  if (!environment.home.empty()) stores.push_back(environment.home + "/.ollama/models");
  stores.emplace_back("/usr/share/ollama/.ollama/models");  // of the system service
  return stores;
}

std::optional<std::string> find_in_ollama(std::string_view name, Io& io, const Environment& env) {
  const std::optional<std::string> manifest = manifest_name(name);
  if (!manifest) return std::nullopt;
  for (const std::string& store : ollama_stores(env)) {
    const std::string path = fmt::format("{}/manifests/{}", store, *manifest);
    if (auto blob = blob_path(store, path, io)) return blob;
  }
  return std::nullopt;
}

void list_ollama(std::vector<ModelEntry>& out, Io& io, const Environment& env) {
  for (const std::string& store : ollama_stores(env)) {
    const std::string root = store + "/manifests";
    for (const std::string& host : names_in(root, io)) {
      const std::string host_folder = join_path(root, host);
      for (const std::string& space : names_in(host_folder, io)) {
        const std::string space_folder = join_path(host_folder, space);
        for (const std::string& name : names_in(space_folder, io)) {
          list_tags(out, store, join_path(space_folder, name), host, space, name, io);
        }
      }
    }
  }
}

}  // namespace orrery::storage
