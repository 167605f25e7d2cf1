// Orrery's own cache folder.
#include <algorithm>
#include <iterator>

#include "storage/limits.hpp"
#include "storage/loaded_checkpoint.hpp"
#include "storage/model_names.hpp"
#include "storage/model_stores.hpp"
#include "storage/split_name.hpp"

namespace orrery::storage {
namespace {

bool is_weight_file(std::string_view name) {
  return name.ends_with(".gguf") || name.ends_with(".safetensors");
}

// The short name of a file of the table, else the file's name without ".gguf".
std::string name_of_file(std::string_view file) {
  for (const ModelName& entry : kModelNames) {
    if (entry.file == file) return std::string(entry.name);
  }
  return std::string(file.substr(0, file.size() - std::string_view(".gguf").size()));
}

bool is_model_file(std::string_view name) {
  if (!name.ends_with(".gguf")) return false;
  const std::optional<SplitName> split = parse_split_name(name);
  return !split || split->number == 1;
}

void list_images(std::vector<ModelEntry>& out, const std::string& folder, Io& io) {
  const auto names = io.list(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    if (!name.ends_with(".gguf")) continue;
    const std::string path = join_path(folder, name);
    const auto info = io.info(path);
    if (!info || info->kind != FileKind::regular) continue;
    const std::string_view stem = std::string_view(name).substr(0, name.size() - 5);
    out.push_back({join_path(kImagesFolder, stem), path, info->size, ModelSource::image});
  }
}

}  // namespace

bool is_safe_name(std::string_view name) {
  if (name.find_first_of(std::string_view("\\\0", 2)) != std::string_view::npos) return false;
  while (true) {
    const std::size_t slash = name.find('/');
    const std::string_view component = name.substr(0, slash);
    if (component.empty() || component == "." || component == "..") return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

std::string cache_folder(const Environment& environment) {
  if (!environment.xdg_cache_home.empty()) return environment.xdg_cache_home + "/orrery";
  return environment.home + "/.cache/orrery";
}

std::optional<std::string> find_in_cache(std::string_view name, Io& io, const Environment& env) {
  if (!is_safe_name(name)) return std::nullopt;
  std::string path = join_path(cache_folder(env), name);
  if (io.exists(path)) return path;
  path += ".gguf";
  if (io.exists(path)) return path;
  return std::nullopt;
}

void list_cache(std::vector<ModelEntry>& out, Io& io, const Environment& env) {
  auto found = list_folder(cache_folder(env), io);
  std::ranges::move(found, std::back_inserter(out));
}

std::vector<ModelEntry> list_folder(const std::string& folder, Io& io) {
  std::vector<ModelEntry> out;
  const auto names = io.list(folder);
  if (!names) return out;
  for (const std::string& name : *names) {
    const std::string path = join_path(folder, name);
    const auto info = io.info(path);
    if (!info) continue;
    if (info->kind == FileKind::folder && name == kImagesFolder) {
      list_images(out, path, io);
    } else if (info->kind == FileKind::folder) {
      const std::uint64_t bytes = weight_bytes(path, io);
      if (bytes != 0) out.push_back({name, path, bytes, ModelSource::orrery});
    } else if (is_model_file(name)) {
      out.push_back({name_of_file(name), path, model_bytes(path, io), ModelSource::orrery});
    }
  }
  return out;
}

std::uint64_t model_bytes(const std::string& path, Io& io) {
  if (io.is_directory(path)) return weight_bytes(path, io);
  const std::optional<SplitName> split = parse_split_name(path);
  std::uint64_t bytes = 0;
  const std::uint32_t count = split ? std::min(split->count, kMaxSplitParts) : 1;
  for (std::uint32_t part = 1; part <= count; ++part) {
    const auto info = io.info(split ? split_part_path(*split, part) : path);
    if (info) bytes += std::min(info->size, kMaxFileBytes);
  }
  return bytes;
}

std::uint64_t weight_bytes(const std::string& folder, Io& io) {
  const auto names = io.list(folder);
  if (!names) return 0;
  std::uint64_t bytes = 0;
  for (const std::string& name : *names) {
    if (!is_weight_file(name)) continue;
    const auto info = io.info(join_path(folder, name));
    if (info) bytes += std::min(info->size, kMaxFileBytes);
  }
  return bytes;
}

}  // namespace orrery::storage
