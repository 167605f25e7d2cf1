// orrery serve: models behind HTTP.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "cli/app.hpp"
#include "cli/local_models.hpp"
#include "cli/model_arg.hpp"
#include "cli/roofline.hpp"
#include "cli/serve_settings.hpp"
#include "cli/terminal.hpp"
#include "cli/version.hpp"
#include "kernels/dispatch.hpp"

namespace orrery::cli {
namespace {

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

std::string on_demand(const std::vector<server::ModelStatus>& models) {
  std::string names;
  for (const server::ModelStatus& model : models) {
    if (model.presence == server::Presence::ready) continue;
    names += (names.empty() ? "" : ", ") + model.id;
  }
  return names;
}

void print_start(const ServeSettings& settings, const server::Server& server) {
  const bool is_v6 = settings.server.host.contains(':');
  const bool tls = !settings.server.certificate.empty();
  print_note(fmt::format("orrery {} listens on {}://{}{}{}:{}", kVersion, tls ? "https" : "http",
                         is_v6 ? "[" : "", settings.server.host, is_v6 ? "]" : "", server.port()));
  const auto models = server.models();
  const std::string absent = on_demand(models);
  if (!absent.empty()) print_note("on demand: " + absent);
  if (settings.memory > 0) {
    std::uint64_t taken = 0;
    for (const server::ModelStatus& model : models) {
      if (model.presence == server::Presence::ready && model.is_first) taken += model.memory_bytes;
    }
    print_note(fmt::format("memory: models take {} of {}", human_bytes(taken),
                           human_bytes(settings.memory)));
  }
  std::string off;
  const auto add = [&off](bool is_off, std::string_view what) {
    if (is_off) off += fmt::format("{}{}", off.empty() ? "" : ", ", what);
  };
  add(settings.server.access.keys.empty(), "API keys");
  add(!tls, "TLS");
  add(!settings.server.access.shares_cache && settings.server.access.keys.size() > 1,
      "prefixes shared between keys");
  add(!settings.server.access.admin, "changing models (--admin)");
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

// What `orrery bench` holds decode against.
double read_bandwidth(const engine::Model& model) {
  const auto kernels = kernels::choose_kernels(forced_isa());
  return kernels ? measure_reads_beside(model, kernels::peak_kernels(*kernels)) : 0;
}

Status serve(const ServeOptions& options) {
  ORRERY_TRY(ServeSettings settings, options.read());
  settings.server.read_bandwidth = read_bandwidth;
  settings.server.version = kVersion;
  if (settings.logs_requests) settings.server.log = print_note;
  const bool others = !settings.folders.empty() || settings.local_models;
  if (settings.models.empty() && !others) settings.models.emplace_back();  // the default model
  settings.memory = settings.server.models.residency.budget = memory_budget(settings);
  raise_descriptor_limit();
  const sigset_t signals = end_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // of all threads: wait_and_drain() takes them
  auto store = std::make_unique<LocalModels>(settings);
  ORRERY_TRY(const auto sources, store->sources());
  if (sources.empty() && !settings.server.access.admin)
    return fail("E_NOMODEL", "there is no model in these folders");
  ORRERY_TRY(const auto server, server::Server::start(std::move(store), sources, settings.server));
  ORRERY_TRY_VOID(server->load_models());
  print_start(settings, *server);
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
