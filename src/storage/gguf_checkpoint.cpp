// Opens a GGUF file, or all parts of a split one.
#include <fmt/format.h>

#include <utility>

#include "storage/describe.hpp"
#include "storage/gguf.hpp"
#include "storage/limits.hpp"
#include "storage/loaded_checkpoint.hpp"
#include "storage/split_name.hpp"

namespace orrery::storage {
namespace {

Result<GgufFile> add_file(CheckpointParts& parts, const std::string& file, Io& io) {
  ORRERY_TRY(std::unique_ptr<MappedFile> mapping, io.map(file));
  const std::string label = file_label(file);
  ORRERY_TRY(GgufFile gguf, parse_gguf(mapping->bytes(), label));
  if (gguf.trailing_bytes != 0 && !gguf.metadata.has(kImageVersionKey)) {
    parts.warnings.push_back(
        fmt::format("{}: {} bytes after the last tensor are ignored", label, gguf.trailing_bytes));
  }
  for (TensorInfo& tensor : gguf.tensors) {
    tensor.file = static_cast<std::uint32_t>(parts.files.size());
    parts.tensors.push_back(std::move(tensor));
  }
  gguf.tensors.clear();
  parts.files.push_back(file);
  parts.mappings.push_back(std::move(mapping));
  return gguf;
}

// The part's number (from 0) and the count that its metadata claims.
struct SplitKeys {
  std::uint32_t number = 0;
  std::uint32_t count = 1;
};

Result<SplitKeys> split_keys(const Metadata& metadata, std::string_view label) {
  const auto number = metadata.u32_or("split.no", 0);
  const auto count = metadata.u32_or("split.count", 1);
  if (!number) return fail_in(label, number.error());
  if (!count) return fail_in(label, count.error());
  return SplitKeys{*number, *count};
}

Status check_part(const SplitKeys& keys, const SplitKeys& expected, std::string_view label) {
  if (keys.number == expected.number && keys.count == expected.count) return {};
  return fail("E_SPLIT", fmt::format("{}: says it is part {} of {}, part {} of {} is needed", label,
                                     keys.number + std::uint64_t{1}, keys.count,
                                     expected.number + 1, expected.count));
}

Status check_tensor_count(const CheckpointParts& parts) {
  if (!parts.metadata.has("split.tensors.count")) return {};
  const std::string label = file_label(parts.files.front());
  const auto count = parts.metadata.i64("split.tensors.count");
  if (!count) return fail_in(label, count.error());
  if (std::cmp_equal(*count, parts.tensors.size())) return {};
  return fail("E_SPLIT", fmt::format("{}: the {} parts hold {} tensors, split.tensors.count is {}; "
                                     "a part belongs to another model",
                                     label, parts.files.size(), parts.tensors.size(), *count));
}

Status add_other_parts(CheckpointParts& parts, const SplitName& name, Io& io) {
  for (std::uint32_t i = 1; i < name.count; ++i) {
    const std::string file = split_part_path(name, i + 1);
    auto part = add_file(parts, file, io);
    if (!part && part.error().kind == "E_NOTFOUND") {
      return fail("E_SPLIT",
                  fmt::format("{}: part {} of {} is missing: {}", file_label(parts.files.front()),
                              i + 1, name.count, file_label(file)));
    }
    if (!part) return std::unexpected(std::move(part).error());
    const std::string label = file_label(file);
    ORRERY_TRY(const SplitKeys keys, split_keys(part->metadata, label));
    ORRERY_TRY_VOID(check_part(keys, {i, name.count}, label));
  }
  return check_tensor_count(parts);
}

}  // namespace

Result<std::shared_ptr<const Checkpoint>> open_gguf(const std::string& path,
                                                    const std::string& file, Io& io) {
  // Any part of a split file leads to the first one.
  const std::optional<SplitName> name = parse_split_name(file);
  const std::string first = name ? split_part_path(*name, 1) : file;
  CheckpointParts parts;
  parts.format = Format::gguf;
  parts.path = path;
  ORRERY_TRY(GgufFile gguf, add_file(parts, first, io));
  parts.metadata = std::move(gguf.metadata);
  const std::string label = file_label(first);
  ORRERY_TRY(const SplitKeys keys, split_keys(parts.metadata, label));
  if (keys.count > kMaxSplitParts) {
    return fail("E_SPLIT", fmt::format("{}: split.count is {}, at most {} parts are allowed", label,
                                       keys.count, kMaxSplitParts));
  }
  if (keys.count > 1) {
    if (!name || name->count != keys.count) {
      return fail("E_SPLIT",
                  fmt::format("{}: is part {} of {}, its name must end in -00001-of-{:05}.gguf "
                              "for the other parts to be found",
                              label, keys.number + std::uint64_t{1}, keys.count, keys.count));
    }
    ORRERY_TRY_VOID(check_part(keys, {0, name->count}, label));
    ORRERY_TRY_VOID(add_other_parts(parts, *name, io));
  }
  return make_checkpoint(std::move(parts));
}

}  // namespace orrery::storage
