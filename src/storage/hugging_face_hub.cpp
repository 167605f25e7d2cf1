// The cache of Hugging Face's hub library, read in place.
#include <fmt/format.h>

#include <algorithm>

#include "storage/loaded_checkpoint.hpp"
#include "storage/model_stores.hpp"

namespace orrery::storage {
namespace {

constexpr std::uint64_t kMaxRefBytes = 256;
constexpr std::string_view kPrefix = "models--";
constexpr std::string_view kSeparator = "--";

bool holds_model(const std::string& folder, Io& io) {
  return weight_bytes(folder, io) != 0;
}

// The snapshot that refs/main names, else the last one in order of names that holds a model.
std::optional<std::string> snapshot_of(const std::string& repository, Io& io) {
  const std::string snapshots = repository + "/snapshots";
  if (const auto ref = io.read_file(repository + "/refs/main", kMaxRefBytes)) {
    const std::string_view revision = std::string_view(*ref).substr(0, ref->find_first_of("\r\n "));
    const std::string folder = join_path(snapshots, revision);
    if (is_safe_name(revision) && holds_model(folder, io)) return folder;
  }
  const auto names = io.list(snapshots);
  if (!names) return std::nullopt;
  for (auto name = names->rbegin(); name != names->rend(); ++name) {
    std::string folder = join_path(snapshots, *name);
    if (holds_model(folder, io)) return folder;
  }
  return std::nullopt;
}

}  // namespace

std::string hugging_face_hub(const Environment& environment) {
  if (!environment.hf_hub_cache.empty()) return environment.hf_hub_cache;
  if (!environment.hf_home.empty()) return environment.hf_home + "/hub";
  if (!environment.xdg_cache_home.empty()) return environment.xdg_cache_home + "/huggingface/hub";
  return environment.home + "/.cache/huggingface/hub";
}

std::optional<std::string> find_in_hub(std::string_view name, Io& io, const Environment& env) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos || !is_safe_name(name)) return std::nullopt;
  const std::size_t second = name.find('/', slash + 1);
  const std::string_view model = name.substr(slash + 1, second - slash - 1);
  const std::string repository = fmt::format("{}/{}{}{}{}", hugging_face_hub(env), kPrefix,
                                             name.substr(0, slash), kSeparator, model);
  const std::optional<std::string> snapshot = snapshot_of(repository, io);
  if (!snapshot || second == std::string_view::npos) return snapshot;
  std::string file = join_path(*snapshot, name.substr(second + 1));
  if (!io.exists(file)) return std::nullopt;
  return file;
}

void list_hub(std::vector<ModelEntry>& out, Io& io, const Environment& env) {
  const std::string hub = hugging_face_hub(env);
  const auto names = io.list(hub);
  if (!names) return;
  for (const std::string& name : *names) {
    if (!name.starts_with(kPrefix)) continue;
    const std::optional<std::string> snapshot = snapshot_of(join_path(hub, name), io);
    if (!snapshot) continue;
    std::string model = name.substr(kPrefix.size());
    if (const std::size_t at = model.find(kSeparator); at != std::string::npos) {
      model[at] = '/';
      model.erase(at + 1, kSeparator.size() - 1);
    }
    out.push_back({model, *snapshot, weight_bytes(*snapshot, io), ModelSource::hugging_face});
  }
}

}  // namespace orrery::storage
