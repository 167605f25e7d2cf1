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
  CommandLine line("orrery", kDescription, std::string("orrery ") + kVersion);
  Command program = line.root();
  program.requires_command();
  add_run(program);
  add_serve(program);
  add_embed(program);
  add_inspect(program);
  add_eval(program);
  add_bench(program);
  add_silicon(program);
  add_models(program);
  add_sessions(program);
  add_quantize(program);
  add_pack(program);
  add_imatrix(program);
  if (const auto exit_code = line.parse(argc, argv)) return *exit_code;
  const Status status = line.run();
  if (!status) return report(status.error());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return report({"E_OUTPUT", "the output could not be written"});
  }
  return kExitDone;
}

}  // namespace orrery::cli
