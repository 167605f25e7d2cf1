// Opens safetensors, single or sharded, with the files that stand beside them.
#include <fmt/format.h>

#include <set>
#include <utility>

#include "storage/describe.hpp"
#include "storage/limits.hpp"
#include "storage/loaded_checkpoint.hpp"
#include "storage/safetensors.hpp"
#include "storage/sentence_modules.hpp"

namespace orrery::storage {
namespace {

// `prefix` goes before the names of the tensors.
Status add_file(CheckpointParts& parts, const std::string& file, Io& io,
                std::string_view prefix = "") {
  ORRERY_TRY(std::unique_ptr<MappedFile> mapping, io.map(file));
  ORRERY_TRY(std::vector<TensorInfo> tensors,
             parse_safetensors(mapping->bytes(), file_label(file)));
  if (parts.tensors.size() + tensors.size() > kMaxCheckpointTensors) {
    return fail("E_NTENSORS", fmt::format("{}: the files up to this one hold more than {} tensors",
                                          file_label(file), kMaxCheckpointTensors));
  }
  for (TensorInfo& tensor : tensors) {
    tensor.file = static_cast<std::uint32_t>(parts.files.size());
    tensor.name.insert(0, prefix);
    parts.tensors.push_back(std::move(tensor));
  }
  parts.files.push_back(file);
  parts.mappings.push_back(std::move(mapping));
  return {};
}

Status add_side_file(std::unique_ptr<MappedFile>& out, const std::string& folder,
                     std::string_view name, std::uint64_t limit, Io& io) {
  auto mapping = io.map(join_path(folder, name));
  if (!mapping) {
    if (mapping.error().kind == "E_NOTFOUND") return {};
    return std::unexpected(std::move(mapping).error());
  }
  if ((*mapping)->bytes().size() > limit) {
    return fail("E_TOOBIG", fmt::format("{}: has {} bytes, at most {} are allowed", name,
                                        (*mapping)->bytes().size(), limit));
  }
  out = std::move(*mapping);
  return {};
}

Status add_side_files(SideFiles& side, const std::string& folder, Io& io) {
  ORRERY_TRY_VOID(add_side_file(side.config, folder, "config.json", kMaxConfigBytes, io));
  ORRERY_TRY_VOID(add_side_file(side.tokenizer, folder, "tokenizer.json", kMaxTokenizerBytes, io));
  ORRERY_TRY_VOID(add_side_file(side.tokenizer_config, folder, "tokenizer_config.json",
                                kMaxTokenizerConfigBytes, io));
  ORRERY_TRY_VOID(
      add_side_file(side.generation_config, folder, "generation_config.json", kMaxConfigBytes, io));
  ORRERY_TRY_VOID(add_side_file(side.sentence_config, folder, "sentence_bert_config.json",
                                kMaxConfigBytes, io));
  return add_side_file(side.chat_template, folder, "chat_template.jinja", kMaxTemplateBytes, io);
}

// The text of a small file; empty where there is none.
Result<std::string> read_if_there(const std::string& path, Io& io) {
  auto text = io.read_file(path, kMaxConfigBytes);
  if (!text && text.error().kind == "E_NOTFOUND") return std::string();
  return text;
}

Status add_sentence_modules(CheckpointParts& parts, const std::string& folder, Io& io) {
  constexpr std::string_view kLabel = "modules.json";
  ORRERY_TRY(const std::string list, read_if_there(join_path(folder, kLabel), io));
  if (list.empty()) return {};
  ORRERY_TRY(parts.sentence_modules, parse_sentence_modules(list, kLabel));
  for (SentenceModule& module : parts.sentence_modules) {
    const std::string at = join_path(folder, module.folder);
    ORRERY_TRY(module.config, read_if_there(join_path(at, "config.json"), io));
    if (module.kind != "Dense") continue;
    ORRERY_TRY_VOID(add_file(parts, join_path(at, "model.safetensors"), io, module.folder + "/"));
  }
  return {};
}

// Every tensor of the index must be in the file that the index names.
Status check_index(const CheckpointParts& parts, const SafetensorsIndex& index,
                   std::string_view label) {
  std::size_t found = 0;
  for (const TensorInfo& tensor : parts.tensors) {
    const auto entry = index.file_of.find(tensor.name);
    if (entry == index.file_of.end()) continue;
    const std::string actual = file_label(parts.files[tensor.file]);
    if (file_label(entry->second) != actual) {
      return fail("E_INDEX", fmt::format("{}: says that tensor {} is in {}, it is in {}", label,
                                         in_quotes(tensor.name), in_quotes(entry->second), actual));
    }
    ++found;
  }
  if (found >= index.file_of.size()) return {};
  std::set<std::string_view> present;
  for (const TensorInfo& tensor : parts.tensors) present.insert(tensor.name);
  for (const auto& [name, file] : index.file_of) {
    if (present.contains(name)) continue;
    return fail("E_INDEX", fmt::format("{}: says that tensor {} is in {}, it is not there", label,
                                       in_quotes(name), in_quotes(file)));
  }
  return {};
}

void check_total_size(CheckpointParts& parts, const SafetensorsIndex& index,
                      std::string_view label) {
  std::uint64_t bytes = 0;  // no wrap: the files are mapped
  for (const TensorInfo& tensor : parts.tensors) bytes += tensor.bytes;
  if (index.total_size == 0 || index.total_size == bytes) return;
  parts.warnings.push_back(fmt::format("{}: total_size is {}, the shards hold {} bytes", label,
                                       index.total_size, bytes));
}

}  // namespace

Result<std::shared_ptr<const Checkpoint>> open_safetensors_file(const std::string& path,
                                                                const std::string& file, Io& io) {
  CheckpointParts parts;
  parts.format = Format::safetensors;
  parts.path = path;
  ORRERY_TRY_VOID(add_file(parts, file, io));
  ORRERY_TRY_VOID(add_side_files(parts.side, folder_of(file), io));
  ORRERY_TRY_VOID(add_sentence_modules(parts, folder_of(file), io));
  return make_checkpoint(std::move(parts));
}

Result<std::shared_ptr<const Checkpoint>> open_safetensors_shards(const std::string& path,
                                                                  const std::string& folder,
                                                                  Io& io) {
  constexpr std::string_view kLabel = "model.safetensors.index.json";
  ORRERY_TRY(const std::string text, io.read_file(join_path(folder, kLabel), kMaxIndexBytes));
  ORRERY_TRY(const SafetensorsIndex index, parse_safetensors_index(text, kLabel));
  std::set<std::string_view> shards;
  for (const auto& [tensor, file] : index.file_of) shards.insert(file);
  CheckpointParts parts;
  parts.format = Format::safetensors;
  parts.path = path;
  for (const std::string_view shard : shards) {
    const std::string file = join_path(folder, shard);
    Status added = add_file(parts, file, io);
    if (!added && added.error().kind == "E_NOTFOUND") {
      return fail("E_SHARD",
                  fmt::format("{}: names the shard {}, it is missing", kLabel, in_quotes(shard)));
    }
    ORRERY_TRY_VOID(std::move(added));
  }
  ORRERY_TRY_VOID(check_index(parts, index, kLabel));
  check_total_size(parts, index, kLabel);
  ORRERY_TRY_VOID(add_side_files(parts.side, folder, io));
  ORRERY_TRY_VOID(add_sentence_modules(parts, folder, io));
  return make_checkpoint(std::move(parts));
}

}  // namespace orrery::storage
