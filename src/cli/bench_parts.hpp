// The parts of `orrery bench`, one file each.
#pragma once

#include "cli/options.hpp"

namespace orrery::cli {

void add_bench_load(Command bench);
void add_bench_copies(Command bench);
void add_bench_restore(Command bench);

// Processor time of the process so far, all threads, in the kernel too.
double cpu_seconds();

}  // namespace orrery::cli
