// The parts of `orrery bench`, one file each.
#pragma once

#include "cli/options.hpp"

namespace orrery::cli {

void add_bench_load(Command bench);
void add_bench_copies(Command bench);

}  // namespace orrery::cli
