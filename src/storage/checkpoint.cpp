#include "storage/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/describe.hpp"
#include "storage/gguf.hpp"
#include "storage/loaded_checkpoint.hpp"
#include "storage/split_name.hpp"

namespace orrery::storage {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";

using Opened = Result<std::shared_ptr<const Checkpoint>>;

// GGUF files of a folder that are models: first parts of split ones, no image projectors.
std::vector<std::string> gguf_models(const std::vector<std::string>& names) {
  std::vector<std::string> models;
  for (const std::string& name : names) {
    if (!name.ends_with(".gguf") || name.starts_with("mmproj")) continue;
    const std::optional<SplitName> split = parse_split_name(name);
    if (!split || split->number == 1) models.push_back(name);
  }
  return models;
}

std::string list_of(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names.first(std::min<std::size_t>(names.size(), 5))) {
    if (!text.empty()) text += ", ";
    text += in_quotes(name);
  }
  if (names.size() > 5) text += ", ...";
  return text;
}

Opened open_folder(const std::string& folder, Io& io) {
  ORRERY_TRY(const std::vector<std::string> names, io.list(folder));
  const auto has = [&](std::string_view name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  if (has(kSingleName)) {
    return open_safetensors_file(folder, join_path(folder, kSingleName), io);
  }
  if (has(kIndexName)) return open_safetensors_shards(folder, folder, io);
  const std::vector<std::string> models = gguf_models(names);
  if (models.size() == 1) return open_gguf(folder, join_path(folder, models[0]), io);
  if (models.empty()) {
    return fail("E_NOMODEL", fmt::format("{}: the folder holds no model; {}, {} or one .gguf file "
                                         "is needed",
                                         file_label(folder), kSingleName, kIndexName));
  }
  return fail("E_AMBIGUOUS", fmt::format("{}: the folder holds {} models ({}), name one of them",
                                         file_label(folder), models.size(), list_of(models)));
}

bool looks_like_safetensors(std::span<const std::byte> bytes) {
  return bytes.size() > 8 && bytes[8] == std::byte{'{'};
}

}  // namespace

std::string Checkpoint::label() const {
  return file_label(path());
}

Result<std::shared_ptr<const Checkpoint>> Checkpoint::open(const std::string& path, Io& io) {
  ORRERY_TRY(const FileInfo info, io.info(path));
  if (info.kind == FileKind::folder) return open_folder(path, io);
  if (path.ends_with(".gguf")) return open_gguf(path, path, io);
  if (path.ends_with(kIndexName)) return open_safetensors_shards(path, folder_of(path), io);
  if (path.ends_with(".safetensors")) {
    const std::string folder = folder_of(path);
    if (parse_split_name(path) && io.exists(join_path(folder, kIndexName))) {
      return open_safetensors_shards(path, folder, io);
    }
    return open_safetensors_file(path, path, io);
  }
  // Content-addressed stores keep models without an extension.
  ORRERY_TRY(const std::unique_ptr<MappedFile> mapping, io.map(path));
  if (!has_gguf_magic(mapping->bytes()) && looks_like_safetensors(mapping->bytes())) {
    return open_safetensors_file(path, path, io);
  }
  return open_gguf(path, path, io);
}

}  // namespace orrery::storage
