// orrery serve: models behind HTTP.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <memory>
#include <set>
#include <thread>

#include "cli/app.hpp"
#include "cli/serve_settings.hpp"
#include "cli/terminal.hpp"
#include "cli/version.hpp"
#include "storage/model_names.hpp"

namespace orrery::cli {
namespace {

// Sequences that keep the pages of finished requests, besides those in the making.
constexpr std::uint32_t kIdleSequences = 16;

// Ten thousand connections need as many descriptors.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

sigset_t end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

Result<std::shared_ptr<server::ServedModel>> open_served(const std::string& name,
                                                         const ServeSettings& settings) {
  auto served = std::make_shared<server::ServedModel>();
  served->id = server::model_id(name.empty() ? storage::kDefaultModel : std::string_view(name));
  served->created = std::time(nullptr);
  served->overflow = settings.overflow;
  OpenOptions open = settings.open;
  open.sequences = settings.running + kIdleSequences;
  ORRERY_TRY(served->model, open_model(name, open));
  if (!served->model->check_writes()) return served;  // it makes vectors
  engine::EvaluateOptions overflow;
  overflow.overflow = settings.overflow;
  ORRERY_TRY_VOID(engine::check_length(1, *served->model->executor(), overflow));
  ORRERY_TRY(served->scheduler,
             engine::Scheduler::start(served->model,
                                      {.running = settings.running, .queued = settings.queued}));
  return served;
}

void print_start(const ServeSettings& settings, std::uint16_t port,
                 const std::vector<std::shared_ptr<server::ServedModel>>& models) {
  const bool is_v6 = settings.server.host.contains(':');
  const bool tls = !settings.server.certificate.empty();
  print_note(fmt::format("orrery {} listens on {}://{}{}{}:{}", kVersion, tls ? "https" : "http",
                         is_v6 ? "[" : "", settings.server.host, is_v6 ? "]" : "", port));
  for (const auto& model : models) {
    const engine::ModelInfo& info = model->model->info();
    print_note(
        fmt::format("model {}: {}, context {} tokens, weights {}, {} copied, cache up to {}, on {}",
                    model->id, info.family, info.context, human_bytes(info.weight_bytes),
                    human_bytes(info.copied_bytes + info.packed_bytes),
                    human_bytes(info.cache_budget_bytes), info.device));
  }
  std::string off;
  const auto add = [&off](bool is_off, std::string_view what) {
    if (is_off) off += fmt::format("{}{}", off.empty() ? "" : ", ", what);
  };
  add(settings.server.access.keys.empty(), "API keys");
  add(!tls, "TLS");
  add(!settings.server.access.shares_cache && settings.server.access.keys.size() > 1,
      "prefixes shared between keys");
  if (!off.empty()) print_note("off: " + off);
}

// Returns when the server has ended its requests; a second signal ends the process at once.
void wait_and_drain(server::Server& server, std::chrono::seconds grace) {
  const sigset_t signals = end_signals();
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  print_note(fmt::format("ending: requests have {} s", grace.count()));
  std::atomic<bool> drained{false};
  std::thread drainer([&] {
    server.drain(grace);
    drained = true;
  });
  const timespec moment{0, 50'000'000};
  while (!drained) {
    if (sigtimedwait(&signals, nullptr, &moment) > 0) _exit(kExitDone);
  }
  drainer.join();
}

Status serve(const ServeOptions& options) {
  ORRERY_TRY(ServeSettings settings, options.read());
  settings.server.version = kVersion;
  if (settings.models.empty()) settings.models.emplace_back();
  raise_descriptor_limit();
  const sigset_t signals = end_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // of all threads: wait_and_drain() takes them
  std::vector<std::shared_ptr<server::ServedModel>> models;
  std::set<std::string> ids;
  for (const std::string& name : settings.models) {
    ORRERY_TRY(auto model, open_served(name, settings));
    if (!ids.insert(model->id).second) {
      return fail(kUsageError, "two models would have the name " + model->id);
    }
    models.push_back(std::move(model));
  }
  ORRERY_TRY(const auto server, server::Server::start(models, settings.server));
  print_start(settings, server->port(), models);
  models.clear();  // the server's alone: they end with it
  wait_and_drain(*server, settings.drain);
  return {};
}

}  // namespace

void add_serve(Command program) {
  Command command = program.command("serve", "serve models over HTTP");
  auto options = std::make_shared<ServeOptions>(command);
  command.does([options] { return serve(*options); });
}

}  // namespace orrery::cli
