#include "cli/local_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/clock.hpp"
#include "base/topology.hpp"
#include "cli/model_arg.hpp"
#include "cli/pull.hpp"
#include "cli/terminal.hpp"
#include "model/model.hpp"
#include "storage/checkpoint.hpp"
#include "storage/locate.hpp"
#include "storage/model_names.hpp"

namespace orrery::cli {
namespace {

// Sequences that keep the pages of finished requests, besides those in the making.
constexpr std::uint32_t kIdleSequences = 16;
constexpr std::uint64_t kLeastCache = 1U << 20;

// Links are followed, so that one file is one model whatever it is called.
std::string real_path(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

// The same for what may not be there yet; what it links to stays out of it.
std::filesystem::path real_place(const std::string& path) {
  const std::filesystem::path given(path);
  return std::filesystem::path(real_path(given.parent_path().string())) / given.filename();
}

std::string cache_folder() {
  return real_path(storage::cache_folder(storage::Environment::of_process()));
}

std::string model_line(const std::string& id, const engine::Model& model, double seconds) {
  const engine::ModelInfo& info = model.info();
  return fmt::format(
      "model {}: {}, context {} tokens, weights {}{}, {} copied, cache up to {}, on "
      "{}, loaded in {:.1f} s",
      id, info.family, info.context, human_bytes(info.weight_bytes), packed_phrase(model),
      human_bytes(info.copied_bytes + (info.packed_elsewhere ? 0 : info.packed_bytes)),
      human_bytes(info.cache_budget_bytes), info.device, seconds);
}

// A path that is taken for as long as this lives.
class Mark {
 public:
  Mark(std::set<std::string>& paths, std::mutex& mutex) : paths_(paths), mutex_(mutex) {}
  ~Mark() { set(""); }
  void set(const std::string& path) {
    if (path == path_) return;
    const std::lock_guard lock(mutex_);
    paths_.erase(path_);
    if (!path.empty()) paths_.insert(path);
    path_ = path;
  }

 private:
  std::set<std::string>& paths_;
  std::mutex& mutex_;
  std::string path_;
};

Result<std::vector<server::ServedAdapter>> load_adapters(const engine::Model& model,
                                                         const AdapterFiles& files) {
  std::vector<server::ServedAdapter> adapters;
  for (const std::string& text : files) {
    const AdapterFile file = parse_adapter_file(text);
    ORRERY_TRY(const std::uint32_t id, model.load_adapter(file.path, storage::system_io()));
    adapters.push_back({id, file.path.substr(file.path.find_last_of('/') + 1), file.scale});
  }
  return adapters;
}

}  // namespace

std::uint64_t memory_budget(const ServeSettings& settings) {
  if (settings.memory > 0) return settings.memory;
  const bool only_named =
      settings.folders.empty() && !settings.local_models && !settings.server.access.admin;
  return only_named ? 0 : available_memory();
}

std::uint64_t LocalModels::cache_bytes(std::uint64_t weights) const {
  if (settings_.open.cache_bytes > 0 || settings_.memory == 0) return settings_.open.cache_bytes;
  const std::uint64_t left = settings_.memory - std::min(settings_.memory, weights);
  return std::max(std::min(settings_.memory / 4, left / 2), kLeastCache);
}

server::ModelSource LocalModels::source(const std::string& id, const std::string& path) const {
  server::ModelSource source;
  source.id = id;
  source.path = path;
  source.identity = real_path(path);
  source.file_bytes = storage::model_bytes(source.path, storage::system_io());
  source.bytes = source.file_bytes + cache_bytes(source.file_bytes);
  if (const auto info = storage::system_io().info(source.path)) {
    source.modified = info->modified_ns / 1'000'000'000;
  }
  return source;
}

Result<std::vector<server::ModelSource>> LocalModels::sources() const {
  std::vector<server::ModelSource> all;
  const auto has = [&all](const auto& value, auto member) {
    return std::ranges::find(all, value, member) != all.end();
  };
  for (const std::string& name : settings_.models) {
    ORRERY_TRY(const std::string path, locate_model(name));
    const std::string id =
        server::model_id(name.empty() ? storage::kDefaultModel : std::string_view(name));
    server::ModelSource named = source(id, path);
    named.named = true;
    const auto same = std::ranges::find(all, named.id, &server::ModelSource::id);
    if (same == all.end()) {
      all.push_back(std::move(named));
    } else if (same->identity != named.identity) {
      return fail(kUsageError, "two models would have the name " + named.id);
    }
  }
  std::vector<storage::ModelEntry> found;
  for (const std::string& folder : settings_.folders) {
    if (!storage::system_io().is_directory(folder)) {
      return fail("E_NOTFOUND", printable(folder) + " is no folder (--models-dir)");
    }
    std::ranges::move(storage::list_folder(folder, storage::system_io()),
                      std::back_inserter(found));
  }
  if (settings_.local_models) {
    std::ranges::move(
        storage::list_models(storage::system_io(), storage::Environment::of_process()),
        std::back_inserter(found));
  }
  for (const storage::ModelEntry& entry : found) {
    server::ModelSource one = source(server::model_id(entry.name), entry.path);
    if (has(one.id, &server::ModelSource::id) || has(one.identity, &server::ModelSource::identity))
      continue;
    all.push_back(std::move(one));
  }
  return all;
}

Result<server::LoadedModel> LocalModels::open(const server::ModelSource& source) const {
  OpenOptions options = settings_.open;
  options.sequences = settings_.running + kIdleSequences;
  options.cache_bytes = cache_bytes(source.file_bytes);
  auto served = std::make_shared<server::ServedModel>();
  served->id = source.id;
  served->created = source.modified;
  ORRERY_TRY(served->model, open_model(source.path, options));
  ORRERY_TRY_VOID(served->model->settle());
  if (!settings_.adapters.empty()) {
    ORRERY_TRY(auto adapters, load_adapters(*served->model, settings_.adapters));
    served->adapters.load(std::move(adapters));
  }
  served->overflow = settings_.overflow;
  if (served->model->check_writes()) {
    engine::EvaluateOptions overflow;
    overflow.overflow = settings_.overflow;
    ORRERY_TRY_VOID(engine::check_length(1, *served->model->executor(), overflow));
    ORRERY_TRY(served->scheduler,
               engine::Scheduler::start(
                   served->model, {.running = settings_.running, .queued = settings_.queued}));
  }
  server::prepare_texts(*served);
  return server::LoadedModel{served, server::facts_of(*served->model)};
}

Result<server::LoadedModel> LocalModels::load(const server::ModelSource& source) {
  const double start = now_seconds();
  auto loaded = open(source);
  if (loaded) {
    print_note(model_line(source.id, *loaded->served->model, now_seconds() - start));
  } else {
    print_note(fmt::format("model {}: not loaded: error[{}]: {}", source.id, loaded.error().kind,
                           printable(loaded.error().message)));
  }
  return loaded;
}

Result<server::ModelFacts> LocalModels::inspect(const server::ModelSource& source) {
  ORRERY_TRY(const auto files, storage::Checkpoint::open(source.path, storage::system_io()));
  ORRERY_TRY(const auto model, model::load_model(files));
  const model::Hparams& h = model.hparams();
  server::ModelFacts facts;
  facts.info.family = h.family;
  facts.info.training_context = h.context_length;
  facts.info.weight_bytes = source.file_bytes;
  facts.n_tokens = static_cast<std::int32_t>(h.vocab_size);
  facts.embedding_dim = h.embedding_dim();
  facts.writes = h.causal;
  facts.ranks = h.ranks;
  return facts;
}

Result<server::ModelSource> LocalModels::pull(
    const std::string& name, const std::function<bool(const server::PullEvent&)>& progress) {
  if (name.contains("://")) {
    return fail("E_URL", "clients pull models by name, never from an address");
  }
  Mark mark(written_, mutex_);
  const auto pulled = pull_file(name, [&](const PullState& state) {
    mark.set(real_place(state.path).string());
    return progress({state.file, state.sha256, state.done, state.total});
  });
  if (!pulled) {
    print_note(fmt::format("pull of {}: error[{}]: {}", printable(name), pulled.error().kind,
                           printable(pulled.error().message)));
    return std::unexpected(pulled.error());
  }
  const bool is_short = storage::find_model_name(name) != nullptr;
  return source(server::model_id(is_short ? name : pulled->path), pulled->path);
}

Status LocalModels::check_remove(const server::ModelSource& source) {
  const std::filesystem::path place = real_place(source.path);
  if (place.parent_path() != cache_folder()) {
    return fail("E_PLACE", source.path + " does not lie in Orrery's cache");
  }
  const std::lock_guard lock(mutex_);
  if (written_.contains(place.string())) return fail("E_BUSY", source.path + " is being written");
  return {};
}

Status LocalModels::remove(const server::ModelSource& source) {
  std::error_code error;
  std::filesystem::remove_all(source.path, error);
  if (error) {
    print_note(fmt::format("{}: not deleted: {}", printable(source.path), error.message()));
    return fail("E_DISK", fmt::format("{}: {}", source.path, error.message()));
  }
  std::filesystem::remove(source.path + ".verified", error);  // of storage::verify_file()
  return {};
}

}  // namespace orrery::cli
