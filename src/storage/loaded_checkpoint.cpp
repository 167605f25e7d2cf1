#include "storage/loaded_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "storage/describe.hpp"

namespace orrery::storage {
namespace {

std::string_view text_of(const std::unique_ptr<MappedFile>& file) {
  if (file == nullptr) return {};
  const std::span<const std::byte> bytes = file->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class LoadedCheckpoint final : public Checkpoint {
 public:
  LoadedCheckpoint(CheckpointParts parts, std::vector<std::uint32_t> by_name)
      : parts_(std::move(parts)), by_name_(std::move(by_name)) {}

  Format format() const override { return parts_.format; }
  const std::string& path() const override { return parts_.path; }
  std::span<const std::string> files() const override { return parts_.files; }
  const Metadata& metadata() const override { return parts_.metadata; }
  std::span<const TensorInfo> tensors() const override { return parts_.tensors; }
  std::span<const std::string> warnings() const override { return parts_.warnings; }

  Status check_files(bool on_disk) const override {
    for (std::size_t i = 0; i < parts_.mappings.size(); ++i) {
      const MappedFile& file = *parts_.mappings[i];
      if (on_disk ? file.is_unchanged() : file.is_whole()) continue;
      return fail("E_CHANGED", fmt::format("{}: the model file was changed or cut while it was in "
                                           "use; fetch it again if it is not whole, then open the "
                                           "model anew",
                                           file_label(parts_.files[i])));
    }
    return {};
  }

  std::span<const std::unique_ptr<MappedFile>> mappings() const override { return parts_.mappings; }

  void release(std::span<const std::byte> part) const override {
    for (const std::unique_ptr<MappedFile>& file : parts_.mappings) {
      const std::span<const std::byte> bytes = file->bytes();
      const bool inside =
          part.data() >= bytes.data() && part.data() + part.size() <= bytes.data() + bytes.size();
      if (inside) file->release(part);
    }
  }

  const TensorInfo* find(std::string_view name) const override {
    const auto at = std::lower_bound(
        by_name_.begin(), by_name_.end(), name,
        [this](std::uint32_t i, std::string_view wanted) { return name_of(i) < wanted; });
    if (at == by_name_.end() || name_of(*at) != name) return nullptr;
    return &parts_.tensors[*at];
  }

  std::string_view config_json() const override { return text_of(parts_.side.config); }
  std::string_view tokenizer_json() const override { return text_of(parts_.side.tokenizer); }
  std::string_view tokenizer_config_json() const override {
    return text_of(parts_.side.tokenizer_config);
  }
  std::string_view generation_config_json() const override {
    return text_of(parts_.side.generation_config);
  }
  std::string_view chat_template_jinja() const override {
    return text_of(parts_.side.chat_template);
  }
  std::string_view sentence_config_json() const override {
    return text_of(parts_.side.sentence_config);
  }
  std::span<const SentenceModule> sentence_modules() const override {
    return parts_.sentence_modules;
  }

 private:
  std::string_view name_of(std::uint32_t i) const { return parts_.tensors[i].name; }

  CheckpointParts parts_;
  std::vector<std::uint32_t> by_name_;  // indices of tensors, sorted by name
};

}  // namespace

Result<std::shared_ptr<const Checkpoint>> make_checkpoint(CheckpointParts parts) {
  const std::vector<TensorInfo>& tensors = parts.tensors;
  std::vector<std::uint32_t> by_name(tensors.size());
  std::iota(by_name.begin(), by_name.end(), 0U);
  std::sort(by_name.begin(), by_name.end(), [&](std::uint32_t a, std::uint32_t b) {
    return tensors[a].name == tensors[b].name ? a < b : tensors[a].name < tensors[b].name;
  });
  const auto twin = std::adjacent_find(
      by_name.begin(), by_name.end(),
      [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name == tensors[b].name; });
  if (twin != by_name.end()) {
    const TensorInfo& second = tensors[*(twin + 1)];
    return fail_at(
        "E_DUPTENSOR", file_label(parts.files[second.file]), second.offset,
        fmt::format("the tensor {} is already in {}, names are unique", in_quotes(second.name),
                    file_label(parts.files[tensors[*twin].file])));
  }
  return std::make_shared<LoadedCheckpoint>(std::move(parts), std::move(by_name));
}

std::string folder_of(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : file.substr(0, slash));
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.ends_with('/')) path += '/';
  return path.append(name);
}

}  // namespace orrery::storage
