#include "storage/locate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <tuple>
#include <utility>

#include "base/edit_distance.hpp"
#include "storage/describe.hpp"
#include "storage/loaded_checkpoint.hpp"
#include "storage/model_names.hpp"
#include "storage/model_stores.hpp"
#include "storage/sha256.hpp"

namespace orrery::storage {
namespace {

constexpr std::size_t kMaxNameBytes = 4096;
constexpr std::size_t kMaxSuggestions = 3;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lowered(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

// Names that contain the wanted one or differ from it in a few letters, closest first.
std::vector<std::string> close_names(std::string_view wanted, Io& io, const Environment& env) {
  std::vector<std::string> names;
  for (const ModelName& entry : kModelNames) names.emplace_back(entry.name);
  for (ModelEntry& entry : list_models(io, env)) names.push_back(std::move(entry.name));
  const std::string key = lowered(wanted.substr(0, 64));
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& name : names) {
    const std::string candidate = lowered(name);
    const std::size_t distance = edit_distance(key, candidate.substr(0, 64));
    const bool contains = key.size() > 2 && candidate.find(key) != std::string::npos;
    if (contains || distance <= 1 + key.size() / 4) ranked.emplace_back(distance, name);
  }
  std::sort(ranked.begin(), ranked.end());
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  std::vector<std::string> close;
  for (auto& [distance, name] : ranked) {
    if (close.size() < kMaxSuggestions) close.push_back(std::move(name));
  }
  return close;
}

std::unexpected<Error> not_found(std::string_view name, Io& io, const Environment& env) {
  const std::vector<std::string> close = close_names(name, io, env);
  std::string hint = "`orrery models` lists those present, `orrery pull NAME` fetches one";
  if (!close.empty()) {
    hint = "did you mean ";
    for (std::size_t i = 0; i < close.size(); ++i) {
      hint += fmt::format("{}{}", i == 0 ? "" : ", ", in_quotes(close[i]));
    }
    hint += "?";
  }
  return fail("E_NOMODEL",
              fmt::format("no model {}: it is no file or folder, and not in the cache {}, the "
                          "Hugging Face cache {} or the Ollama store {}; {}",
                          in_quotes(name, 100), in_quotes(cache_folder(env), 150),
                          in_quotes(hugging_face_hub(env), 150),
                          in_quotes(ollama_stores(env)[0], 150), hint));
}

Result<std::string> find_named(const ModelName& entry, Io& io, const Environment& env) {
  std::string path = join_path(cache_folder(env), entry.file);
  if (!io.exists(path)) {
    const std::string in_hub = fmt::format("{}/{}", entry.repository, entry.file);
    if (auto found = find_in_hub(in_hub, io, env)) return *found;
    return fail("E_NOMODEL", fmt::format("the model {} is not in the cache ({} is missing); "
                                         "`orrery pull {}` fetches it",
                                         entry.name, in_quotes(path, 300), entry.name));
  }
  if (!entry.sha256.empty()) ORRERY_TRY_VOID(verify_file(path, entry.sha256, io));
  return path;
}

}  // namespace

Environment Environment::of_process() {
  return {.home = variable("HOME"),
          .xdg_cache_home = variable("XDG_CACHE_HOME"),
          .hf_home = variable("HF_HOME"),
          .hf_hub_cache = variable("HF_HUB_CACHE"),
          .ollama_models = variable("OLLAMA_MODELS")};
}

std::string_view source_name(ModelSource source) {
  switch (source) {
    case ModelSource::orrery:
      return "cache";
    case ModelSource::image:
      return "image";
    case ModelSource::hugging_face:
      return "Hugging Face";
    case ModelSource::ollama:
      return "Ollama";
  }
  std::unreachable();
}

Result<std::string> locate(std::string_view name, Io& io, const Environment& environment) {
  if (name.empty()) name = kDefaultModel;
  if (name.size() > kMaxNameBytes || name.find('\0') != std::string_view::npos) {
    return fail("E_NOMODEL",
                fmt::format("the model name {} is too long or holds a NUL", in_quotes(name)));
  }
  if (io.exists(std::string(name))) return std::string(name);
  if (const ModelName* entry = find_model_name(name)) {
    return find_named(*entry, io, environment);
  }
  if (auto path = find_in_cache(name, io, environment)) return *path;
  if (auto path = find_in_hub(name, io, environment)) return *path;
  if (auto path = find_in_ollama(name, io, environment)) return *path;
  return not_found(name, io, environment);
}

std::vector<ModelEntry> list_models(Io& io, const Environment& environment) {
  std::vector<ModelEntry> models;
  list_cache(models, io, environment);
  list_hub(models, io, environment);
  list_ollama(models, io, environment);
  std::sort(models.begin(), models.end(), [](const ModelEntry& a, const ModelEntry& b) {
    return std::tie(a.source, a.name, a.path) < std::tie(b.source, b.name, b.path);
  });
  return models;
}

}  // namespace orrery::storage
