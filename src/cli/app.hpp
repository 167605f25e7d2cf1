// The program's commands. Results go to stdout, everything else to stderr; exit codes: 0 done, 1
// the input or the system refused, 2 wrong usage.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "base/result.hpp"

namespace orrery::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitRefused = 1;
inline constexpr int kExitUsage = 2;

// What the chosen command does once all arguments are parsed.
using Action = std::function<Status()>;

// Each adds its command to the app; the callback of the chosen one stores the action.
void add_run(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_silicon(CLI::App& app, Action& action);
void add_models(CLI::App& app, Action& action);

int run_cli(int argc, const char* const* argv);

}  // namespace orrery::cli
