// The program's commands. Results go to stdout, everything else to stderr; exit codes: 0 done, 1
// the input or the system refused, 2 wrong usage.
#pragma once

#include "cli/options.hpp"

namespace orrery::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitRefused = 1;
inline constexpr int kExitUsage = 2;

// Each adds its commands.
void add_run(Command program);
void add_serve(Command program);
void add_embed(Command program);
void add_inspect(Command program);
void add_eval(Command program);
void add_bench(Command program);
void add_silicon(Command program);
void add_models(Command program);
void add_sessions(Command program);
void add_quantize(Command program);
void add_pack(Command program);
void add_imatrix(Command program);

int run_cli(int argc, const char* const* argv);

}  // namespace orrery::cli
