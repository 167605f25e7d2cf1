#include "cli/app.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>

#include "cli/terminal.hpp"
#include "cli/version.hpp"

namespace orrery::cli {
namespace {

constexpr const char* kDescription =
    "Orrery runs language models straight on the silicon: the bytes of a model file are the bytes\n"
    "that the matrix units multiply. MODEL is a GGUF file, a folder or a short name; without one,\n"
    "the default model.";

int report(const Error& error) {
  const std::string kind =
      error.kind == kUsageError ? "" : fmt::format("[{}]", std::string(error.kind));
  print_error(fmt::format("error{}: {}", kind, printable(error.message)));
  return error.kind == kUsageError ? kExitUsage : kExitRefused;
}

}  // namespace

int run_cli(int argc, const char* const* argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the write, not the end
  CLI::App app{kDescription, "orrery"};
  app.set_version_flag("--version", std::string("orrery ") + kVersion);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  Action action;
  add_run(app, action);
  add_inspect(app, action);
  add_eval(app, action);
  add_bench(app, action);
  add_silicon(app, action);
  add_models(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  const Status status = action ? action() : Status{};
  if (!status) return report(status.error());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return report({"E_OUTPUT", "the output could not be written"});
  }
  return kExitDone;
}

}  // namespace orrery::cli
